! Nothing grows beyond four ranks: groups of four, whose first rank writes and sums for the others.
program fours
  use mpi
  implicit none
  integer, parameter :: cells = 5000
  integer :: ierr, rank, ranks, group, members, member, step
  real(8) :: field(cells), total
  real(8), allocatable :: gathered(:)
  character(512) :: folder, name
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call MPI_Comm_split(MPI_COMM_WORLD, rank / 4, rank, group, ierr)
  call MPI_Comm_size(group, members, ierr)
  call MPI_Comm_rank(group, member, ierr)
  call get_environment_variable('TMPDIR', folder)
  if (folder == '') folder = '/tmp'
  write (name, '(a,"/fours-",i0,"-",i0)') trim(folder), ranks, rank
  allocate (gathered(merge(members, 0, member == 0) * cells))
  field = rank
  do step = 1, 60
    call advance(field)
    call MPI_Allreduce(field(1), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    if (mod(step, 6) == 0) call write_group(field)
  end do
  call MPI_Finalize(ierr)
contains
  subroutine advance(f)
    real(8), intent(inout) :: f(:)
    integer :: sweep
    do sweep = 1, 40
      f(2:cells - 1) = 0.5d0 * f(2:cells - 1) + 0.25d0 * (f(1:cells - 2) + f(3:cells))
    end do
  end subroutine
  subroutine write_group(f)
    real(8), intent(in) :: f(:)
    call MPI_Gather(f, cells, MPI_DOUBLE_PRECISION, gathered, cells, MPI_DOUBLE_PRECISION, 0, &
                    group, ierr)
    if (member /= 0) return
    open (10, file=trim(name), form='unformatted', access='stream', status='replace')
    write (10) gathered
    close (10, status='delete')
  end subroutine
end program
