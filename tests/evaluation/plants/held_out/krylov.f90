! An enlarged Krylov method: the residual of each rank is a search direction of its own.
module basis
  use mpi
  implicit none
  integer :: rank, nranks
contains
  real(8) function dot(x, y)
    real(8), intent(in) :: x(:), y(:)
    real(8) :: mine
    integer :: ierr
    mine = sum(x * y)
    call MPI_Allreduce(mine, dot, 1, MPI_REAL8, MPI_SUM, MPI_COMM_WORLD, ierr)
  end function

  subroutine orthogonalise(v, m)
    integer, intent(in) :: m
    real(8), intent(inout) :: v(:, :)
    integer :: i, j
    do j = 1, m
      do i = 1, j - 1
        v(:, j) = v(:, j) - dot(v(:, i), v(:, j)) * v(:, i)
      end do
      v(:, j) = v(:, j) / sqrt(dot(v(:, j), v(:, j)) + 1d-12)
    end do
  end subroutine

  subroutine multiply(v, m)
    integer, intent(in) :: m
    real(8), intent(inout) :: v(:, :)
    real(8) :: edge(m), got(m)
    integer :: k, n, ierr
    n = size(v, 1)
    edge = v(n, :)
    call MPI_Sendrecv(edge, m, MPI_REAL8, mod(rank + 1, nranks), 1, got, m, MPI_REAL8, &
      mod(rank + nranks - 1, nranks), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    do k = 1, m
      v(2:n, k) = v(2:n, k) + 0.3d0 * v(1:n - 1, k)
    end do
    v(1, 1) = v(1, 1) + got(1)
  end subroutine
end module

program krylov
  use basis
  implicit none
  real(8), allocatable :: v(:, :)
  integer :: step, m, ierr
  character(len=16) :: argument
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  call get_command_argument(1, argument)
  m = nranks
  if (argument == "repaired") m = 4
  allocate(v(2000, m))
  call random_number(v)
  v = v + rank
  do step = 1, 3
    call multiply(v, m)
    call orthogonalise(v, m)
  end do
  if (rank == 0) print *, v(1, 1)
  call MPI_Finalize(ierr)
end program
