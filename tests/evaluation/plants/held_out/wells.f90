! Two limits: each rank receives the wells of all ranks, and rank 0 eliminates the dense matrix of
! all wells. Repaired: each rank solves its own well.
program wells
  use mpi
  implicit none
  integer, parameter :: n = 4000, own = 12, layers = 500
  integer :: ierr, rank, ranks, step, i
  character(len=16) :: word
  real(8) :: field(n), rates(layers)
  real(8), allocatable :: all(:, :), matrix(:, :), rhs(:)
  logical :: repaired

  call mpi_init(ierr)
  call mpi_comm_rank(mpi_comm_world, rank, ierr)
  call mpi_comm_size(mpi_comm_world, ranks, ierr)
  word = ''
  if (command_argument_count() > 0) call get_command_argument(1, word)
  repaired = word == 'repaired'
  allocate (all(layers, merge(1, ranks, repaired)))
  field = rank
  rates = [(1d-3*i, i=1, layers)]
  do step = 1, 40
    call flow(field)
    if (repaired) then
      all(:, 1) = rates
      call solve_wells(own)
    else
      call share_wells
      if (rank == 0) call solve_wells(own*ranks)
      call mpi_barrier(mpi_comm_world, ierr)
    end if
  end do
  call mpi_finalize(ierr)

contains

  subroutine flow(field)
    real(8), intent(inout) :: field(n)
    integer :: sweep, i
    do sweep = 1, 600
      do i = 2, n - 1
        field(i) = 0.25d0*field(i - 1) + 0.5d0*field(i) + 0.25d0*field(i + 1)
      end do
    end do
  end subroutine

  subroutine share_wells
    call mpi_allgather(rates, layers, mpi_double_precision, all, layers, mpi_double_precision, &
                       mpi_comm_world, ierr)
  end subroutine

  subroutine solve_wells(m)
    integer, intent(in) :: m
    integer :: j, k
    real(8) :: factor
    allocate (matrix(m, m), rhs(m))
    do j = 1, m
      matrix(:, j) = 1d0/m
      matrix(j, j) = 2d0 + 0.01d0*j
      rhs(j) = all(1 + mod(j, layers), 1)
    end do
    do k = 1, m - 1
      do j = k + 1, m
        factor = matrix(k, j)/matrix(k, k)
        matrix(k:m, j) = matrix(k:m, j) - factor*matrix(k:m, k)
        rhs(j) = rhs(j) - factor*rhs(k)
      end do
    end do
    field(1) = rhs(m)
    deallocate (matrix, rhs)
  end subroutine
end program
