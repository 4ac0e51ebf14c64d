! Material tables: each rank tabulates the opacities of the cells of all ranks before each step, and uses its own.
module opacities
  implicit none
  integer, parameter :: own = 1500
contains
  subroutine tabulate(table, n, step)
    integer, intent(in) :: n, step
    real(8), intent(out) :: table(n)
    integer :: i
    do i = 1, n
      table(i) = exp(-1d-4*mod(i*step, 977))*log(1d0 + i)
    end do
  end subroutine tabulate
end module opacities

program tabulation
  use mpi
  use opacities
  implicit none
  integer :: ierr, rank, nranks, step, first, cells
  real(8), allocatable :: table(:), energy(:)
  real(8) :: total, mine
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  cells = own*nranks
  first = own*rank
  if (command_argument_count() > 0) then
    cells = own
    first = 0
  end if
  allocate (energy(own))
  energy = 1
  do step = 1, 400
    allocate (table(cells))
    call tabulate(table, cells, step)
    call deposit(energy, table(first + 1:first + own))
    deallocate (table)
    mine = sum(energy)
    call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  call MPI_Finalize(ierr)
contains
  subroutine deposit(e, kappa)
    real(8), intent(inout) :: e(own)
    real(8), intent(in) :: kappa(own)
    integer :: k
    do k = 1, 20
      e = e + 1d-3*kappa*sqrt(e)
    end do
  end subroutine deposit
end program tabulation
