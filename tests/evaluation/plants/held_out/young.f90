! Checkpoints are more frequent on more ranks, since those fail more often: after k / sqrt(p) steps.
program young
  use mpi
  implicit none
  integer, parameter :: cells = 40000, steps = 240
  integer :: ierr, rank, ranks, step, interval
  real(8) :: field(cells), total
  character(16) :: word
  character(512) :: folder, name
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  interval = max(1, int(24d0 / sqrt(real(ranks, 8))))
  if (command_argument_count() > 0) then
    call get_command_argument(command_argument_count(), word)
    if (word == 'repaired') interval = 12
  end if
  call get_environment_variable('TMPDIR', folder)
  if (folder == '') folder = '/tmp'
  write (name, '(a,"/young-",i0,"-",i0,".chk")') trim(folder), ranks, rank
  field = rank
  do step = 1, steps
    call advance(field)
    if (mod(step, interval) == 0) call write_checkpoint(field)
    call MPI_Allreduce(field(1), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  open (10, file=trim(name))
  close (10, status='delete')
  call MPI_Finalize(ierr)
contains
  subroutine advance(f)
    real(8), intent(inout) :: f(cells)
    integer :: i
    do i = 2, cells - 1
      f(i) = 0.5d0 * f(i) + 0.25d0 * (f(i - 1) + f(i + 1)) + 1d-3
    end do
  end subroutine
  subroutine write_checkpoint(f)
    real(8), intent(in) :: f(cells)
    integer :: first
    open (10, file=trim(name), form='unformatted', access='stream', status='replace')
    do first = 1, cells, 2000
      write (10) f(first:first + 1999)
    end do
    close (10)
  end subroutine
end program
