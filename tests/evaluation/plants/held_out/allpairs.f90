! The bodies of each rank travel around a ring of all ranks, so that each meets all others.
program allpairs
  use mpi
  implicit none
  integer, parameter :: n = 200
  integer :: ierr, rank, nranks, step, turn, turns, left, right
  real(8) :: own(n), guests(n), force(n)
  character(len=8) :: word
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  call get_command_argument(1, word)
  left = mod(rank + nranks - 1, nranks)
  right = mod(rank + 1, nranks)
  own = rank
  turns = nranks
  if (len_trim(word) > 0) turns = 2
  do step = 1, 40
    guests = own
    force = 0d0
    do turn = 1, turns
      call interact(own, guests, force)
      call shift(guests)
    end do
    own = own + 1d-3 * force
  end do
  call MPI_Finalize(ierr)
contains
  subroutine interact(a, b, f)
    real(8), intent(in) :: a(:), b(:)
    real(8), intent(inout) :: f(:)
    integer :: i, j
    do i = 1, size(a)
      do j = 1, size(b)
        f(i) = f(i) + (b(j) - a(i)) / (1d0 + (b(j) - a(i))**2)
      end do
    end do
  end subroutine
  subroutine shift(b)
    real(8), intent(inout) :: b(:)
    integer :: status(MPI_STATUS_SIZE)
    call MPI_Sendrecv_replace(b, size(b), MPI_DOUBLE_PRECISION, right, 1, left, 1, MPI_COMM_WORLD, status, ierr)
  end subroutine
end program
