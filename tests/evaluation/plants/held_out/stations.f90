! Each rank reads the list of the stations of all ranks up to its own, in each forcing interval.
! Repaired: the list has one entry, which all ranks read.
program stations
  use mpi
  implicit none
  integer, parameter :: n = 3000, intervals = 60
  integer :: ierr, rank, ranks, interval
  character(len=16) :: word
  real(8) :: field(n), forcing
  logical :: repaired

  call mpi_init(ierr)
  call mpi_comm_rank(mpi_comm_world, rank, ierr)
  call mpi_comm_size(mpi_comm_world, ranks, ierr)
  word = ''
  if (command_argument_count() > 0) call get_command_argument(1, word)
  repaired = word == 'repaired'
  if (rank == 0) call write_list(merge(1, ranks, repaired))
  call mpi_barrier(mpi_comm_world, ierr)
  field = rank
  do interval = 1, intervals
    call read_forcing(merge(0, rank, repaired), forcing)
    call integrate(field, forcing)
    call mpi_barrier(mpi_comm_world, ierr)
  end do
  if (rank == 0) then
    open (20, file='stations.txt')
    close (20, status='delete')
  end if
  call mpi_finalize(ierr)

contains

  subroutine write_list(count)
    integer, intent(in) :: count
    integer :: r, k
    open (20, file='stations.txt', status='replace')
    do r = 0, count - 1
      do k = 1, 200
        write (20, '(i8, i6, 3f12.4)') r, k, 0.1*r, 0.2*k, 0.3*(r + k)
      end do
    end do
    close (20)
  end subroutine

  subroutine read_forcing(mine, forcing)
    integer, intent(in) :: mine
    real(8), intent(out) :: forcing
    integer :: station, k
    real(8) :: x, y, z
    forcing = 0
    open (21, file='stations.txt', status='old', action='read')
    do
      read (21, *) station, k, x, y, z
      if (station == mine) forcing = forcing + z
      if (station == mine .and. k == 200) exit
    end do
    close (21)
  end subroutine

  subroutine integrate(field, forcing)
    real(8), intent(inout) :: field(n)
    real(8), intent(in) :: forcing
    integer :: sweep, i
    do sweep = 1, 500
      do i = 2, n - 1
        field(i) = 0.25d0*field(i - 1) + 0.5d0*field(i) + 0.25d0*field(i + 1) + 1d-6*forcing
      end do
    end do
  end subroutine
end program
