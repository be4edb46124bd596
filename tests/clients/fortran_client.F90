! fortran_client: MPI-IO from Fortran, built once for each of its three interfaces: with USE_MPIF_H (mpif.h), with
! USE_MPI (use mpi) or with USE_MPI_F08 (use mpi_f08). The command line is that of client.h, without --pause.
!
! Each rank writes BLOCKS blocks of COUNT numbers through a view in which ranks take turns; --again writes one block of
! each over, with explicit offsets, blocking and not.

#if defined(USE_MPI_F08)
#define HANDLE(kind) type(kind)
#define STATUS_DECLARATION type(MPI_Status) :: status
#else
#define HANDLE(kind) integer
#define STATUS_DECLARATION integer :: status(MPI_STATUS_SIZE)
#endif

program fortran_client
#if defined(USE_MPI_F08)
  use mpi_f08
  implicit none
#elif defined(USE_MPI)
  use mpi
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  integer, parameter :: count = 5000, blocks = 30, update = 7
  integer, parameter :: field_seed = 1, update_seed = 2
  integer :: rank, ranks, error, i
  logical :: checking, again
  character(len=256) :: mode, path, option
  HANDLE(MPI_File) :: file
  HANDLE(MPI_Datatype) :: filetype, resized
  HANDLE(MPI_Request) :: request
  integer(kind=MPI_OFFSET_KIND) :: offset
  integer(kind=MPI_ADDRESS_KIND) :: extent
  integer :: buffer(count * blocks)
  STATUS_DECLARATION

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, mode)
  call get_command_argument(2, path)
  if (mode == '--list') then
    if (rank == 0) print '(a)', 'collective', 'independent', 'ordered'
    call MPI_Finalize(error)
    stop
  end if
  checking = .false.
  again = .false.
  do i = 3, command_argument_count()
    call get_command_argument(i, option)
    if (option == '--check') then
      checking = .true.
    else if (option == '--again') then
      again = .true.
    else
      call fail('unknown option ' // trim(option))
    end if
  end do

  if (checking) then
    call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_RDONLY, MPI_INFO_NULL, file, error)
  else
    call MPI_File_open(MPI_COMM_WORLD, trim(path), ior(MPI_MODE_RDWR, MPI_MODE_CREATE), MPI_INFO_NULL, file, error)
  end if
  call checked(error, 'MPI_File_open')

  call MPI_Type_vector(blocks, count, count * ranks, MPI_INTEGER, filetype, error)
  extent = 4_MPI_ADDRESS_KIND * count * ranks * blocks
  call MPI_Type_create_resized(filetype, 0_MPI_ADDRESS_KIND, extent, resized, error)
  call MPI_Type_commit(resized, error)

  if (checking) then
    call set_blocks_view()
    buffer = 0
    call MPI_File_read_all(file, buffer, count * blocks, MPI_INTEGER, status, error)
    call checked(error, 'MPI_File_read_all')
    do i = 1, size(buffer)
      if (buffer(i) /= expected(i)) call fail('a number is not what was written')
    end do
  else if (again) then
    buffer(1:count) = [(number(update_seed, (update - 1) * count + i), i = 1, count)]
    call set_blocks_view()
    offset = int(update - 1, MPI_OFFSET_KIND) * count
    call MPI_File_write_at(file, offset, buffer, count / 2, MPI_INTEGER, status, error)
    call checked(error, 'MPI_File_write_at')
    call MPI_File_iwrite_at(file, offset + count / 2, buffer(count / 2 + 1:count), count - count / 2, MPI_INTEGER, &
                            request, error)
    call checked(error, 'MPI_File_iwrite_at')
    call MPI_Wait(request, status, error)
    call MPI_File_sync(file, error)
    call checked(error, 'MPI_File_sync')
  else
    buffer = [(number(field_seed, i), i = 1, size(buffer))]
    call write_all_blocks()
  end if

  call MPI_Type_free(resized, error)
  call MPI_Type_free(filetype, error)
  call MPI_File_close(file, error)
  call checked(error, 'MPI_File_close')
  call MPI_Finalize(error)

contains

  subroutine fail(message)
    character(len=*), intent(in) :: message
    write (0, '(a,i0,5a)') 'rank ', rank, ': ', trim(mode), ' ', trim(path), ': ' // message
    call MPI_Abort(MPI_COMM_WORLD, 1, error)
    stop 1
  end subroutine fail

  subroutine checked(code, call_name)
    integer, intent(in) :: code
    character(len=*), intent(in) :: call_name
    if (code /= MPI_SUCCESS) call fail(call_name)
  end subroutine checked

  integer function number(seed, i)
    integer, intent(in) :: seed, i
    integer(kind=8) :: x
    x = int(i, 8) * 2654435761_8 + int(seed, 8) * 40503_8 + int(rank, 8) * 1000003_8
    number = int(iand(ieor(x, ishft(x, -13)), 2147483647_8))
  end function number

  integer function expected(i)
    integer, intent(in) :: i
    if (again .and. (i - 1) / count + 1 == update) then
      expected = number(update_seed, i)
    else
      expected = number(field_seed, i)
    end if
  end function expected

  subroutine set_blocks_view()
    offset = 4_MPI_OFFSET_KIND * count * rank
    call MPI_File_set_view(file, offset, MPI_INTEGER, resized, 'native', MPI_INFO_NULL, error)
    call checked(error, 'MPI_File_set_view')
  end subroutine set_blocks_view

  subroutine write_all_blocks()
    integer :: b
    select case (mode)
    case ('collective')
      call set_blocks_view()
      call MPI_File_write_all(file, buffer, count * blocks, MPI_INTEGER, status, error)
      call checked(error, 'MPI_File_write_all')
    case ('independent')
      call set_blocks_view()
      do b = 1, blocks
        call MPI_File_write(file, buffer((b - 1) * count + 1:b * count), count, MPI_INTEGER, status, error)
        call checked(error, 'MPI_File_write')
      end do
    case ('ordered')
      do b = 1, blocks
        call MPI_File_write_ordered(file, buffer((b - 1) * count + 1:b * count), count, MPI_INTEGER, status, error)
        call checked(error, 'MPI_File_write_ordered')
      end do
    case default
      call fail('unknown mode')
    end select
  end subroutine write_all_blocks
end program fortran_client
