! Strong scaling with OpenMP: as many parallel regions on any number of ranks, for ever fewer cells.
program regions
  use mpi
  use omp_lib
  implicit none
  integer, parameter :: cells = 552960, colours = 16
  integer :: ierr, rank, ranks, provided, step, own
  real(8), allocatable :: field(:)
  real(8) :: total
  character(16) :: word
  logical :: repaired
  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  repaired = .false.
  if (command_argument_count() > 0) then
    call get_command_argument(command_argument_count(), word)
    repaired = word == 'repaired'
  end if
  call omp_set_num_threads(2)
  own = cells / ranks
  allocate (field(own))
  field = 1d0
  do step = 1, 3
    if (repaired) then
      call relax_all(field)
    else
      call relax_colours(field)
    end if
    call MPI_Allreduce(field(1), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  call MPI_Finalize(ierr)
contains
  subroutine relax_colours(f)
    real(8), intent(inout) :: f(:)
    integer :: colour, i
    do colour = 1, colours
      !$omp parallel do
      do i = colour, size(f), colours
        f(i) = f(i) + 1d-2 * sin(f(i)) * exp(-f(i))
      end do
      !$omp end parallel do
    end do
  end subroutine
  subroutine relax_all(f)
    real(8), intent(inout) :: f(:)
    integer :: i
    !$omp parallel do
    do i = 1, size(f)
      f(i) = f(i) + 1d-2 * sin(f(i)) * exp(-f(i))
    end do
    !$omp end parallel do
  end subroutine
end program
