! No limit: multigrid with the logarithm of p levels below one cell per rank, on which ever fewer
! ranks take part.
program healthy_multigrid
  use mpi
  implicit none
  integer, parameter :: n = 4096
  integer :: rank, nranks, ierr, step
  real(8) :: u(0:n + 1), mine, all
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  u = rank
  do step = 1, 60
    call relax_fine()
    call visit_coarse(1)
    mine = sum(u)
    call MPI_Allreduce(mine, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  if (rank == 0) print *, all
  call MPI_Finalize(ierr)
contains

  integer function at(other)
    integer, intent(in) :: other
    at = other
    if (other < 0 .or. other >= nranks) at = MPI_PROC_NULL
  end function at

  subroutine swap(stride)
    integer, intent(in) :: stride
    call MPI_Sendrecv(u(1), 1, MPI_DOUBLE_PRECISION, at(rank - stride), 1, u(n + 1), 1, MPI_DOUBLE_PRECISION, &
                      at(rank + stride), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(u(n), 1, MPI_DOUBLE_PRECISION, at(rank + stride), 2, u(0), 1, MPI_DOUBLE_PRECISION, &
                      at(rank - stride), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  end subroutine swap

  subroutine relax_fine()
    integer :: i, sweep
    call swap(1)
    do sweep = 1, 20
      do i = 1, n
        u(i) = 0.25d0*(u(i - 1) + 2*u(i) + u(i + 1))
      end do
    end do
  end subroutine relax_fine

  recursive subroutine visit_coarse(stride)
    integer, intent(in) :: stride
    if (mod(rank, stride) /= 0 .or. stride >= nranks) return
    call swap(stride)
    u(1) = 0.25d0*(u(0) + 2*u(1) + u(n + 1))
    call visit_coarse(2*stride)
    call swap(stride)
  end subroutine visit_coarse
end program healthy_multigrid
