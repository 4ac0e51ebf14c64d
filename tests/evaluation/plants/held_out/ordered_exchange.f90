! Ranks send their edges one after the other, with a barrier after each of them.
program ordered_exchange
  use mpi
  implicit none
  integer :: rank, ranks, error, step
  double precision :: field(4000), ghost(100)
  logical :: is_repaired

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  is_repaired = command_argument_count() > 0
  field = 1d0
  do step = 1, 50
    if (is_repaired) then
      call exchange_at_once(field, ghost)
    else
      call exchange_ordered(field, ghost)
    end if
    call relax(field)
  end do
  call MPI_Finalize(error)

contains

  subroutine exchange_ordered(edge, values)
    double precision, intent(in) :: edge(:)
    double precision, intent(out) :: values(100)
    integer :: sender, next, status(MPI_STATUS_SIZE)
    do sender = 0, ranks - 1
      next = mod(sender + 1, ranks)
      if (rank == sender) call MPI_Send(edge, 100, MPI_DOUBLE_PRECISION, next, 0, MPI_COMM_WORLD, error)
      if (rank == next) call MPI_Recv(values, 100, MPI_DOUBLE_PRECISION, sender, 0, MPI_COMM_WORLD, status, error)
      call MPI_Barrier(MPI_COMM_WORLD, error)
    end do
  end subroutine

  subroutine exchange_at_once(edge, values)
    double precision, intent(in) :: edge(:)
    double precision, intent(out) :: values(100)
    integer :: status(MPI_STATUS_SIZE)
    call MPI_Sendrecv(edge, 100, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 0, values, 100, &
        MPI_DOUBLE_PRECISION, mod(rank + ranks - 1, ranks), 0, MPI_COMM_WORLD, status, error)
  end subroutine

  subroutine relax(cells)
    double precision, intent(inout) :: cells(:)
    integer :: pass, i
    do pass = 1, 200
      do i = 2, size(cells) - 1
        cells(i) = 0.5d0 * cells(i) + 0.25d0 * (cells(i - 1) + cells(i + 1))
      end do
    end do
  end subroutine
end program
