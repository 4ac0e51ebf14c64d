! Phases of a Fortran program: compile this file with the program and write `use insitu`.
!
!   call insitu_phase("solve")
!
! begins the phase with that name and ends the previous one. Nothing is linked: the function is looked up while the
! program runs, and without insitu the call does nothing. A C library before 2.34 needs -ldl.
module insitu
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_procpointer, c_funptr, c_null_char, c_null_ptr, c_ptr
  implicit none
  private
  public :: insitu_phase

  abstract interface
    subroutine marker(name) bind(c)
      import :: c_char
      character(kind=c_char), intent(in) :: name(*)
    end subroutine marker
  end interface

  interface
    function dlsym(handle, name) bind(c, name="dlsym") result(address)
      import :: c_char, c_funptr, c_ptr
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr) :: address
    end function dlsym
  end interface

contains

  subroutine insitu_phase(name)
    character(len=*), intent(in) :: name
    type(c_funptr) :: address
    procedure(marker), pointer :: mark
    address = dlsym(c_null_ptr, "insitu_phase" // c_null_char) ! a null handle searches all loaded libraries
    if (.not. c_associated(address)) return
    call c_f_procpointer(address, mark)
    call mark(trim(name) // c_null_char)
  end subroutine insitu_phase

end module insitu
