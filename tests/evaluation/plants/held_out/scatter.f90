module boundary
  use mpi
  implicit none
contains
  subroutine distribute(values, rank, nranks)
    real(8), intent(inout) :: values(:)
    integer, intent(in) :: rank, nranks
    integer :: ierr, other, status(MPI_STATUS_SIZE)
    if (rank == 0) then
      do other = 1, nranks - 1
        values = values + 1d0
        call MPI_Send(values, size(values), MPI_DOUBLE_PRECISION, other, 3, MPI_COMM_WORLD, ierr)
      end do
    else
      call MPI_Recv(values, size(values), MPI_DOUBLE_PRECISION, 0, 3, MPI_COMM_WORLD, status, ierr)
    end if
  end subroutine
  subroutine broadcast(values)
    real(8), intent(inout) :: values(:)
    integer :: ierr
    call MPI_Bcast(values, size(values), MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierr)
  end subroutine
end module
program climate
  use mpi
  use boundary
  implicit none
  integer :: ierr, rank, nranks, step
  real(8) :: forcing(20000), state(20000)
  character(len=8) :: word
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  call get_command_argument(1, word)
  state = rank
  do step = 1, 40
    forcing = step
    if (len_trim(word) > 0) then
      call broadcast(forcing)
    else
      call distribute(forcing, rank, nranks)
    end if
    state = 0.9d0 * state + 0.1d0 * forcing
  end do
  call MPI_Finalize(ierr)
end program
