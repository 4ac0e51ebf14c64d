! What Fortran programs ask of their library, named by the first argument.
module layer
  use, intrinsic :: iso_c_binding
  implicit none
  integer, volatile :: signals = 0
contains
  subroutine handle()
    signals = signals + 1
  end subroutine
  recursive function down(n) result(total)
    integer, intent(in) :: n
    integer :: total
    total = 0
    if (n > 0) total = down(n - 1) + 1
  end function
  function written(n) result(text)
    integer, intent(in) :: n
    character(len=20) :: text
    write (text, '(a,i0)') 'inner ', n * down(3)
  end function
end module

program units
  use mpi
  use, intrinsic :: ieee_arithmetic
  use, intrinsic :: ieee_exceptions
  use layer
  implicit none
  integer :: ierr, rank, ranks, total
  character(len=40) :: word
  call get_command_argument(1, word)
  call mpi_init(ierr)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, ierr)
  select case (word)
  case ('files')
    call files()
  case ('flags')
    call flags()
  case ('traps')
    call traps()
  case ('signals')
    call own_signals()
  case ('commands')
    call commands()
  case ('arguments')
    call arguments()
  case ('arrays')
    call arrays(400000)
  case ('stops')
    stop 7
  case ('stops-text')
    error stop 'a reason'
  case ('stops-notes')
    call notes()
    stop
  case ('backtraces')
    call shows()
  end select
  call mpi_allreduce(1, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  print '(a,i0)', 'sum ', total
  call mpi_finalize(ierr)
contains
  subroutine files()
    integer :: first, second, third, i, place, value, state
    logical :: is_open
    character(len=80) :: line, name
    integer :: number = 3
    real :: length = 2.5
    namelist /settings/ number, length
    write (name, '(a,i0)') 'units-', rank
    open (newunit=first, file=trim(name), status='replace', access='stream', form='formatted', action='readwrite')
    open (newunit=second, status='scratch', form='unformatted', access='direct', recl=8)
    open (newunit=third, status='scratch')
    print *, first, second, third
    do i = 1, 20
      write (first, '(a,1x,a)') trim(written(i)), trim(written(i + 1))
      write (second, rec=i) i, i * 2
      call mpi_barrier(MPI_COMM_WORLD, ierr)
    end do
    write (third, nml=settings)
    rewind (third)
    number = 0
    read (third, nml=settings)
    inquire (first, pos=place, opened=is_open)
    read (second, rec=7) i, value
    print *, place, is_open, value, number
    rewind (first)
    read (first, '(a)', advance='no', size=i, iostat=state) line
    backspace (third)
    open (unit=10, file=trim(name)//'-a', asynchronous='yes', form='unformatted')
    write (10, asynchronous='yes', id=i) value
    wait (10, id=i)
    close (10, status='delete')
    read (99, *, iostat=state) value
    print *, state /= 0
    inquire (unit=5, name=line)
    print *, trim(line)
    close (first, status='delete')
    flush (6)
  end subroutine
  subroutine flags()
    type(ieee_status_type) :: state
    logical :: raised(5)
    integer :: i
    call ieee_get_status(state)
    call ieee_set_flag(ieee_all, .false.)
    do i = 1, 200
      total = down(mod(i, 10))
      call mpi_barrier(MPI_COMM_WORLD, ierr)
    end do
    call ieee_get_flag(ieee_all, raised)
    print *, raised
    call ieee_set_rounding_mode(ieee_up)
    do i = 1, 3000000
      total = total + down(1) - 1
    end do
    call ieee_get_flag(ieee_all, raised)
    print *, raised
    call ieee_set_status(state)
  end subroutine
  subroutine traps()
    real(8), volatile :: x
    integer :: i
    x = 1
    do i = 1, 20000000
      x = x * 1.0000001d0
    end do
    do i = 1, 100
      call mpi_barrier(MPI_COMM_WORLD, ierr)
      total = down(5)
    end do
    print *, x > 1
  end subroutine
  subroutine own_signals()
    integer :: i, old
    intrinsic :: signal, kill, getpid, alarm
    call signal(10, handle, old)
    do i = 1, 50
      call kill(getpid(), 10, old)
      total = down(5)
    end do
    call alarm(100, handle, old)
    call alarm(0, handle, i)
    print *, signals, i > 90
  end subroutine
  subroutine commands()
    integer :: code, state, i
    character(len=200) :: text
    do i = 1, 2
      call execute_command_line('exit 3', exitstat=code, cmdstat=state)
      print *, code, state
    end do
    call execute_command_line('echo child; env | grep -c -i insitu', exitstat=code)
    call get_environment_variable('LD_PRELOAD', text, status=state)
    print *, command_argument_count(), state
    call system('true', code)
    print *, code
    call execute_command_line('true', wait=.false., cmdstat=state) ! from now on, a handler takes each child
  end subroutine
  subroutine arguments()
    integer :: values(20), column(4), i, requests(2), status(MPI_STATUS_SIZE, 2), next, before
    integer, allocatable :: grid(:, :)
    next = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)
    values = [(i, i=1, 20)]
    allocate (grid(4, 4))
    grid = rank
    do i = 1, 10
      call mpi_sendrecv(values(1:20:5), 4, MPI_INTEGER, next, 1, column, 4, MPI_INTEGER, before, 1, MPI_COMM_WORLD, &
                        MPI_STATUS_IGNORE, ierr)
      call mpi_allreduce(MPI_IN_PLACE, column, 4, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierr)
      call mpi_irecv(grid(1, 1), 4, MPI_INTEGER, before, 2, MPI_COMM_WORLD, requests(1), ierr)
      call mpi_isend(values, 4, MPI_INTEGER, next, 2, MPI_COMM_WORLD, requests(2), ierr)
      call mpi_waitall(2, requests, status, ierr)
      call mpi_bcast(MPI_BOTTOM, 0, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
    end do
    print *, column, grid(:, 1)
  end subroutine
  subroutine arrays(n)
    integer, intent(in) :: n
    real(8) :: automatic(n)
    integer :: i
    automatic = 1
    do i = 1, 50
      automatic = automatic * 1.01d0
      call mpi_barrier(MPI_COMM_WORLD, ierr)
    end do
    print *, sum(automatic) > n
  end subroutine
  subroutine notes()
    real, volatile :: x
    x = 3
    x = x * 2
    call mpi_barrier(MPI_COMM_WORLD, ierr)
  end subroutine
  subroutine shows()
    call flush (6)
    call backtrace()
  end subroutine
end program
