! Regions and phases of a Fortran program: compile this file with the program and write `use insitu`.
!
!   call insitu_region_begin("solve")
!   call insitu_region_end()
!
! The region is a row of the call tree. Regions nest; each thread has its own.
!
!   call insitu_phase("assemble")
!
! begins the phase with that name and ends the previous one.
!
!   if (insitu_iteration()) exit
!
! begins an iteration of the main loop. It is true where the iterations made so far are all that the user wants to
! measure (insitu run --iterations 5), alike in all ranks that mark the same iterations. Nothing is linked: the functions are looked up while the
! program runs, and without insitu the calls do nothing. A C library before 2.34 needs -ldl.
module insitu
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_procpointer, c_funloc, c_funptr, c_int32_t, &
    c_null_char, c_null_ptr, c_ptr
  implicit none
  private
  public :: insitu_iteration, insitu_phase, insitu_region_begin, insitu_region_end

  abstract interface
    subroutine phase_function(name) bind(c)
      import :: c_char
      character(kind=c_char), intent(in) :: name(*)
    end subroutine phase_function
    subroutine begin_function(name, bytes, wrapper) bind(c)
      import :: c_char, c_funptr, c_int32_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: bytes
      type(c_funptr), value :: wrapper
    end subroutine begin_function
    subroutine end_function() bind(c)
    end subroutine end_function
    function iteration_function() bind(c) result(is_enough)
      import :: c_int32_t
      integer(c_int32_t) :: is_enough
    end function iteration_function
  end interface

  interface
    function dlsym(handle, name) bind(c, name="dlsym") result(address)
      import :: c_char, c_funptr, c_ptr
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr) :: address
    end function dlsym
  end interface

  ! Threads that look the functions up at the same time find the same.
  logical, save :: is_looked_up = .false.
  procedure(begin_function), pointer, save :: begin_region => null()
  procedure(end_function), pointer, save :: end_region => null()

contains

  subroutine insitu_phase(name)
    character(len=*), intent(in) :: name
    type(c_funptr) :: address
    procedure(phase_function), pointer :: mark
    address = dlsym(c_null_ptr, "insitu_phase" // c_null_char) ! a null handle searches all loaded libraries
    if (.not. c_associated(address)) return
    call c_f_procpointer(address, mark)
    call mark(trim(name) // c_null_char)
  end subroutine insitu_phase

  logical function insitu_iteration()
    type(c_funptr) :: address
    procedure(iteration_function), pointer :: mark
    insitu_iteration = .false.
    address = dlsym(c_null_ptr, "insitu_iteration" // c_null_char)
    if (.not. c_associated(address)) return
    call c_f_procpointer(address, mark)
    insitu_iteration = mark() /= 0
  end function insitu_iteration

  ! It gives its own address, so that it is no function of the call tree.
  recursive subroutine insitu_region_begin(name)
    character(len=*), intent(in) :: name
    if (.not. is_looked_up) call look_up()
    if (associated(begin_region)) &
      call begin_region(name, int(len_trim(name), c_int32_t), c_funloc(insitu_region_begin))
  end subroutine insitu_region_begin

  subroutine insitu_region_end()
    if (.not. is_looked_up) call look_up()
    if (associated(end_region)) call end_region()
  end subroutine insitu_region_end

  subroutine look_up()
    type(c_funptr) :: address
    address = dlsym(c_null_ptr, "insitu_region_begin_fortran" // c_null_char)
    if (c_associated(address)) call c_f_procpointer(address, begin_region)
    address = dlsym(c_null_ptr, "insitu_region_end" // c_null_char)
    if (c_associated(address)) call c_f_procpointer(address, end_region)
    is_looked_up = .true.
  end subroutine look_up

end module insitu
