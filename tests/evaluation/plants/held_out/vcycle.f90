! Multigrid: the coarsest grid has one unknown on each rank, and is relaxed twice as often as there
! are ranks. Repaired: eight times.
module grids
  use mpi
  implicit none
  integer, parameter :: finest = 12
  integer :: rank, nranks, ierr, left, right
  type grid
    real(8), allocatable :: u(:), f(:)
  end type grid
  type(grid) :: levels(0:finest)
contains

  subroutine swap_ghosts(u)
    real(8), intent(inout) :: u(0:)
    integer :: n
    n = ubound(u, 1) - 1
    call MPI_Sendrecv(u(1), 1, MPI_DOUBLE_PRECISION, left, 1, u(n + 1), 1, MPI_DOUBLE_PRECISION, right, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(u(n), 1, MPI_DOUBLE_PRECISION, right, 2, u(0), 1, MPI_DOUBLE_PRECISION, left, 2, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  end subroutine swap_ghosts

  subroutine relax(level)
    integer, intent(in) :: level
    integer :: i
    associate (u => levels(level)%u, f => levels(level)%f)
      call swap_ghosts(u)
      do i = 1, 2**level
        u(i) = u(i) + 0.6d0*(0.5d0*(u(i - 1) + u(i + 1) + f(i)) - u(i))
      end do
    end associate
  end subroutine relax

  subroutine solve_coarsest(sweeps)
    integer, intent(in) :: sweeps
    integer :: sweep
    do sweep = 1, sweeps
      call relax(0)
    end do
  end subroutine solve_coarsest

  recursive subroutine cycle_from(level, sweeps)
    integer, intent(in) :: level, sweeps
    integer :: i
    if (level == 0) then
      call solve_coarsest(sweeps)
      return
    end if
    call relax(level)
    call relax(level)
    do i = 1, 2**(level - 1)
      levels(level - 1)%f(i) = 0.5d0*(levels(level)%u(2*i - 1) + levels(level)%u(2*i))
    end do
    call cycle_from(level - 1, sweeps)
    do i = 1, 2**(level - 1)
      levels(level)%u(2*i - 1:2*i) = levels(level)%u(2*i - 1:2*i) + 0.1d0*levels(level - 1)%u(i)
    end do
    call relax(level)
  end subroutine cycle_from
end module grids

program vcycle
  use grids
  implicit none
  integer :: level, step, sweeps
  real(8) :: mine, all
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  left = rank - 1
  right = rank + 1
  if (left < 0) left = MPI_PROC_NULL
  if (right == nranks) right = MPI_PROC_NULL
  sweeps = 2*nranks
  if (command_argument_count() > 0) sweeps = 8
  do level = 0, finest
    allocate (levels(level)%u(0:2**level + 1), levels(level)%f(2**level))
    levels(level)%u = rank
    levels(level)%f = 1
  end do
  do step = 1, 15
    call cycle_from(finest, sweeps)
    mine = sum(levels(finest)%u)
    call MPI_Allreduce(mine, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  if (rank == 0) print *, all
  call MPI_Finalize(ierr)
end program vcycle
