# A toolchain file: it builds the core for POWER on another machine and runs the tests under an emulator.
#     cmake -DCMAKE_TOOLCHAIN_FILE=cmake/ppc64le.cmake -DTMFLOW_BUILD_PYTHON=OFF -DTMFLOW_BUILD_TENSORFLOW=OFF ...
# Debian: g++-powerpc64le-linux-gnu, qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ppc64le)
set(CMAKE_CXX_COMPILER powerpc64le-linux-gnu-g++)
# Static, so that the emulator needs no libraries of the target machine.
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-ppc64le -cpu power8)
# Programs are those of the host; libraries are those of the target; packages (Eigen) contain only headers.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
