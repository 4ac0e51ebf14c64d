! Adaptive mesh: for each of its blocks, each rank looks for neighbours among the blocks of all ranks.
module mesh
  implicit none
  integer, parameter :: own = 60
contains
  subroutine find_neighbours(boxes, n, mine, links)
    real(8), intent(in) :: boxes(4, n), mine(4, own)
    integer, intent(in) :: n
    integer, intent(out) :: links
    integer :: i, j
    links = 0
    do i = 1, own
      do j = 1, n
        if (boxes(1, j) < mine(2, i) .and. mine(1, i) < boxes(2, j)) then
          if (boxes(3, j) < mine(4, i) .and. mine(3, i) < boxes(4, j)) links = links + 1
        end if
      end do
    end do
  end subroutine
  subroutine advance(u)
    real(8), intent(inout) :: u(:)
    integer :: i, round
    do round = 1, 40
      do i = 2, size(u) - 1
        u(i) = 0.5d0 * u(i) + 0.25d0 * (u(i - 1) + u(i + 1))
      end do
    end do
  end subroutine
end module
program blocks
  use mpi
  use mesh
  implicit none
  integer :: ierr, rank, nranks, step, links, n, k
  real(8) :: mine(4, own), u(20000), total, part
  real(8), allocatable :: boxes(:, :)
  character(len=8) :: word
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  call get_command_argument(1, word)
  n = own
  if (len_trim(word) == 0) n = own * nranks
  allocate(boxes(4, n))
  do k = 1, own
    mine(:, k) = [dble(rank), rank + 1.5d0, dble(k), k + 1.5d0]
  end do
  u = rank
  do step = 1, 120
    call advance(u)
    if (len_trim(word) == 0) then
      call MPI_Allgather(mine, 4 * own, MPI_DOUBLE_PRECISION, boxes, 4 * own, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, ierr)
    else
      boxes = mine
    end if
    do k = 1, 20
      call find_neighbours(boxes, n, mine, links)
    end do
    part = links + u(10)
    call MPI_Allreduce(part, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  call MPI_Finalize(ierr)
end program
