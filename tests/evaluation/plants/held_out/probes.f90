! The buffer of a gather to rank 0 is allocated and cleared on all ranks. Repaired: no gather, each
! rank keeps its probes.
program probes
  use mpi
  implicit none
  integer, parameter :: n = 4000, samples = 20000
  integer :: ierr, rank, ranks, step
  character(len=16) :: word
  real(8) :: field(n), mine(samples)
  real(8), allocatable :: all(:, :)
  logical :: repaired

  call mpi_init(ierr)
  call mpi_comm_rank(mpi_comm_world, rank, ierr)
  call mpi_comm_size(mpi_comm_world, ranks, ierr)
  word = ''
  if (command_argument_count() > 0) call get_command_argument(1, word)
  repaired = word == 'repaired'
  call set_up_probes(merge(1, ranks, repaired))
  field = rank
  do step = 1, 80
    call advance(field, mine)
    if (mod(step, 40) == 0 .and. .not. repaired) call store_probes
    if (repaired) all(:, 1) = mine
  end do
  call mpi_finalize(ierr)

contains

  subroutine set_up_probes(count)
    integer, intent(in) :: count
    allocate (all(samples, count))
    all = 0
  end subroutine

  subroutine store_probes
    call mpi_gather(mine, samples, mpi_double_precision, all, samples, mpi_double_precision, 0, &
                    mpi_comm_world, ierr)
  end subroutine

  subroutine advance(field, mine)
    real(8), intent(inout) :: field(n), mine(samples)
    integer :: sweep, i
    do sweep = 1, 400
      do i = 2, n - 1
        field(i) = 0.25d0*field(i - 1) + 0.5d0*field(i) + 0.25d0*field(i + 1)
      end do
      mine(sweep) = field(n/2)
    end do
  end subroutine
end program
