! Weak scaling of a square that is cut into slabs: its edge grows as the root of the number of ranks.
program slabs
  use mpi
  implicit none
  integer :: ierr, rank, nranks, step, nx, ny, left, right
  real(8), allocatable :: u(:, :)
  character(len=8) :: word
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  call get_command_argument(1, word)
  left = mod(rank + nranks - 1, nranks)
  right = mod(rank + 1, nranks)
  nx = 400
  if (len_trim(word) == 0) nx = int(400d0 * sqrt(dble(nranks)))
  ny = 160000 / nx
  allocate(u(nx, 0:ny + 1))
  u = rank
  do step = 1, 100
    call exchange(u)
    call relax(u)
  end do
  call MPI_Finalize(ierr)
contains
  subroutine relax(f)
    real(8), intent(inout) :: f(:, 0:)
    integer :: i, j
    do j = 1, ubound(f, 2) - 1
      do i = 2, size(f, 1) - 1
        f(i, j) = 0.5d0 * f(i, j) + 0.125d0 * (f(i - 1, j) + f(i + 1, j) + f(i, j - 1) + f(i, j + 1))
      end do
    end do
  end subroutine
  subroutine exchange(f)
    real(8), intent(inout) :: f(:, 0:)
    integer :: status(MPI_STATUS_SIZE)
    call MPI_Sendrecv(f(1, ny), nx, MPI_DOUBLE_PRECISION, right, 1, f(1, 0), nx, MPI_DOUBLE_PRECISION, left, 1, &
                      MPI_COMM_WORLD, status, ierr)
    call MPI_Sendrecv(f(1, 1), nx, MPI_DOUBLE_PRECISION, left, 2, f(1, ny + 1), nx, MPI_DOUBLE_PRECISION, right, 2, &
                      MPI_COMM_WORLD, status, ierr)
  end subroutine
end program
