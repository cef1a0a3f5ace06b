package main

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// crooked is a running zone node whose clocks can be made to jump, each by itself: a debugger's way, for a static Go program
// takes no preloaded library, and a time namespace shifts a clock before a process starts and never the wall clock.
//
// The runtime reads the wall clock through a pointer to the vDSO's function; the fence reads the clock since boot through
// unix.ClockGettime. Both are led over a few instructions that add an offset to the seconds. They lie in the text of
// runtime.debugCallV2, which nothing but a debugger calls and in which no goroutine is ever preempted.
type crooked struct {
	pid        int
	wall, boot int64 // addresses of the offsets
}

// Where in debugCallV2 the parts lie.
const (
	bootShim = 64
	dataAt   = 128
	roomFor  = 192 // bytes of it that are used
)

// crook prepares a running process. It is stopped for some milliseconds.
func crook(pid int) (*crooked, error) {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return nil, fmt.Errorf("finding the program of process %d: %w", pid, err)
	}
	at, err := addresses(exe, "runtime.debugCallV2", "runtime.vdsoClockgettimeSym", "golang.org/x/sys/unix.ClockGettime")
	if err != nil {
		return nil, err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the memory of process %d: %w", pid, err)
	}
	defer mem.Close()
	shim, pointer, gettime := at[0], at[1], at[2]
	if err := tell(pid, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	defer func() { _ = tell(pid, syscall.SIGCONT) }()
	if err := awaitStopped(pid, gettime, gettime+8); err != nil {
		return nil, err
	}
	var vdso [8]byte
	if _, err := mem.ReadAt(vdso[:], pointer); err != nil {
		return nil, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	if binary.LittleEndian.Uint64(vdso[:]) == 0 {
		return nil, errors.New("the program does not read the clock through the vDSO")
	}
	jump := append([]byte{0xe9}, rel32(gettime+5, shim+bootShim)...)
	for _, w := range []struct {
		at int64
		b  []byte
	}{
		{shim, shims(vdso)}, {gettime, jump}, {pointer, binary.LittleEndian.AppendUint64(nil, uint64(shim))},
	} {
		if _, err := mem.WriteAt(w.b, w.at); err != nil {
			return nil, fmt.Errorf("writing the memory of process %d: %w", pid, err)
		}
	}
	return &crooked{pid, shim + dataAt + 8, shim + dataAt + 16}, nil
}

// shims are the instructions, followed by the address of the vDSO's function and the two offsets.
func shims(vdso [8]byte) []byte {
	b := make([]byte, roomFor)
	data := func(next int, word int) []byte { return rel32(int64(next), int64(dataAt+8*word)) }
	wall := []byte{0x85, 0xff, 0x75, 18, 0x56}                    // test edi,edi; jnz others; push rsi
	wall = append(append(wall, 0xff, 0x15), data(11, 0)...)       // call [vdso]
	wall = append(wall, 0x5e)                                     // pop rsi
	wall = append(append(wall, 0x48, 0x8b, 0x0d), data(19, 1)...) // mov rcx,[wall]
	wall = append(wall, 0x48, 0x01, 0x0e, 0xc3)                   // add [rsi],rcx; ret
	wall[3] = byte(len(wall) - 4)
	others := len(wall)
	wall = append(append(wall, 0xff, 0x25), data(others+6, 0)...) // others: jmp [vdso]
	copy(b, wall)
	boot := []byte{0x89, 0xc7, 0x48, 0x89, 0xde, 0xb8, 0xe4, 0, 0, 0, 0x0f, 0x05}   // mov edi,eax; mov rsi,rbx; mov eax,228; syscall
	boot = append(append(boot, 0x48, 0x8b, 0x0d), data(bootShim+len(boot)+7, 2)...) // mov rcx,[boot]
	boot = append(boot, 0x48, 0x01, 0x0b, 0x31, 0xc0, 0x31, 0xdb, 0xc3)             // add [rbx],rcx; xor eax,eax; xor ebx,ebx; ret
	copy(b[bootShim:], boot)
	copy(b[dataAt:], vdso[:])
	return b
}

func rel32(next, to int64) []byte {
	return binary.LittleEndian.AppendUint32(nil, uint32(int32(to-next)))
}

// addresses finds symbols in a program that is linked to a fixed place.
func addresses(exe string, names ...string) ([]int64, error) {
	f, err := elf.Open(exe)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", exe, err)
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC {
		return nil, fmt.Errorf("%s is not linked to a fixed place", exe)
	}
	symbols, err := f.Symbols()
	if err != nil {
		return nil, fmt.Errorf("reading the symbols of %s: %w", exe, err)
	}
	at := make([]int64, len(names))
	for _, s := range symbols {
		for i, name := range names {
			if s.Name == name {
				at[i] = int64(s.Value)
			}
		}
	}
	for i, name := range names {
		if at[i] == 0 {
			return nil, fmt.Errorf("%s has no %s", exe, name)
		}
	}
	return at, nil
}

// awaitStopped waits until all threads of a process stand still, none of them between two addresses.
func awaitStopped(pid int, from, to int64) error {
	for range 200 {
		if standsStill(pid, from, to) {
			return nil
		}
		time.Sleep(5 * time.Millisecond) // a poll: the kernel tells only a parent
	}
	return fmt.Errorf("process %d does not stand still", pid)
}

func standsStill(pid int, from, to int64) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		stat, err := os.ReadFile(filepath.Join(task, "stat"))
		_, rest, found := strings.Cut(string(stat), ") ")
		if err != nil || !found || !strings.HasPrefix(rest, "T") {
			return false
		}
		where, err := os.ReadFile(filepath.Join(task, "syscall"))
		fields := strings.Fields(string(where))
		if err != nil || len(fields) < 2 {
			return false
		}
		pc, err := strconv.ParseInt(fields[len(fields)-1], 0, 64)
		if err == nil && pc >= from && pc < to {
			return false
		}
	}
	return len(tasks) > 0
}

// jumpWall and jumpBoot set by how much a clock is off.
func (c *crooked) jumpWall(by time.Duration) error { return c.set(c.wall, by) }

func (c *crooked) jumpBoot(by time.Duration) error { return c.set(c.boot, by) }

func (c *crooked) set(at int64, by time.Duration) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.pid), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("opening the memory of process %d: %w", c.pid, err)
	}
	defer mem.Close()
	if _, err := mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(int64(by/time.Second))), at); err != nil {
		return fmt.Errorf("setting a clock of process %d: %w", c.pid, err)
	}
	return nil
}
