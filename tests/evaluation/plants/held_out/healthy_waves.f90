! Strong scaling without a limit: cells and edges shrink, one all-reduce of a number in each step.
program waves
  use mpi
  implicit none
  integer, parameter :: cells = 83160
  integer :: ierr, rank, ranks, step, own
  real(8), allocatable :: u(:)
  real(8) :: energy
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  own = cells / ranks
  allocate (u(0:own + 1))
  u = 1d0 + rank
  do step = 1, 25
    call swap_ends()
    call propagate()
    energy = norm()
  end do
  call MPI_Finalize(ierr)
contains
  subroutine swap_ends()
    call MPI_Sendrecv(u(own), 1, MPI_DOUBLE_PRECISION, modulo(rank + 1, ranks), 1, u(0), 1, &
                      MPI_DOUBLE_PRECISION, modulo(rank - 1, ranks), 1, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(u(1), 1, MPI_DOUBLE_PRECISION, modulo(rank - 1, ranks), 2, u(own + 1), 1, &
                      MPI_DOUBLE_PRECISION, modulo(rank + 1, ranks), 2, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, ierr)
  end subroutine
  subroutine propagate()
    integer :: sweep, i
    do sweep = 1, 12
      do i = 1, own
        u(i) = u(i) + 0.1d0 * (u(i + 1) - 2d0 * u(i) + u(i - 1))
      end do
    end do
  end subroutine
  real(8) function norm()
    real(8) :: mine
    mine = sum(u(1:own)**2)
    call MPI_Allreduce(mine, norm, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end function
end program
