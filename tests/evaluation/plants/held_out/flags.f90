! Each rank marks its slot in an array over all ranks, which is reduced in every step.
program flags
  use mpi
  implicit none
  integer :: ierr, rank, nranks, step, n
  integer, allocatable :: flag(:), all(:)
  real(8) :: field(10000), total, part
  character(len=8) :: word
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  call get_command_argument(1, word)
  field = rank
  do step = 1, 50
    call relax(field)
    if (len_trim(word) > 0) then
      part = sum(field)
      call MPI_Allreduce(part, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    else
      call agree(step)
    end if
  end do
  call MPI_Finalize(ierr)
contains
  subroutine relax(f)
    real(8), intent(inout) :: f(:)
    integer :: i, k
    do k = 1, 20
      do i = 2, size(f) - 1
        f(i) = 0.5d0 * f(i) + 0.25d0 * (f(i - 1) + f(i + 1))
      end do
    end do
  end subroutine
  subroutine agree(step)
    integer, intent(in) :: step
    allocate(flag(100 * nranks), all(100 * nranks))
    flag = 0
    flag(100 * rank + 1) = step
    call MPI_Allreduce(flag, all, 100 * nranks, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    deallocate(flag, all)
  end subroutine
end program
