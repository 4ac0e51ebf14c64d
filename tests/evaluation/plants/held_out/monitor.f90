! Strong scaling: rank 0 receives the whole field in each step and computes its statistics alone.
program monitor
  use mpi
  implicit none
  integer, parameter :: cells = 55440
  integer :: ierr, rank, ranks, step, own
  real(8), allocatable :: field(:), whole(:)
  real(8) :: spread
  logical :: repaired
  character(16) :: word
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  repaired = .false.
  if (command_argument_count() > 0) then
    call get_command_argument(command_argument_count(), word)
    repaired = word == 'repaired'
  end if
  own = cells / ranks
  allocate (field(own))
  field = 1d0 + rank
  if (rank == 0 .and. .not. repaired) allocate (whole(own * ranks))
  if (.not. allocated(whole)) allocate (whole(1))
  do step = 1, 40
    call advance(field)
    if (repaired) then
      spread = local_spread(field)
    else
      call collect()
    end if
  end do
  call MPI_Finalize(ierr)
contains
  subroutine advance(u)
    real(8), intent(inout) :: u(:)
    integer :: sweep, i
    do sweep = 1, 20
      do i = 2, size(u)
        u(i) = 0.5d0 * (u(i) + sqrt(u(i - 1)))
      end do
    end do
  end subroutine
  subroutine collect()
    call MPI_Gather(field, own, MPI_DOUBLE_PRECISION, whole, own, MPI_DOUBLE_PRECISION, 0, &
                    MPI_COMM_WORLD, ierr)
    if (rank == 0) spread = statistics(whole)
  end subroutine
  real(8) function statistics(u)
    real(8), intent(in) :: u(:)
    integer :: i
    real(8) :: mean
    mean = sum(u) / size(u)
    statistics = 0d0
    do i = 1, size(u)
      statistics = statistics + log(1d0 + abs(u(i) - mean))
    end do
  end function
  real(8) function local_spread(u)
    real(8), intent(in) :: u(:)
    integer :: i
    real(8) :: mine
    mine = 0d0
    do i = 1, size(u)
      mine = mine + log(1d0 + abs(u(i)))
    end do
    call MPI_Allreduce(mine, local_spread, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end function
end program
