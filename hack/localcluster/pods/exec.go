package pods

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"golang.org/x/sys/unix"
	utilexec "k8s.io/utils/exec"
)

// command runs a command as the container would, in its environment, until ctx ends, and returns its exit code. Its
// process ends with the container at the latest.
func (p *pod) command(ctx context.Context, argv []string, in io.Reader, out, errOut io.Writer) (int, error) {
	cmd, err := p.prepareCommand(argv)
	if err != nil {
		return 0, err
	}
	cmd.Stdout, cmd.Stderr = out, errOut
	var stdin io.WriteCloser
	if in != nil { // not cmd.Stdin: reaping must not wait for a client that sends nothing
		if stdin, err = cmd.StdinPipe(); err != nil {
			return 0, err
		}
	}
	proc, err := p.rt.cfg.Keeper.Start(cmd, "exec in pod "+p.obj.Namespace+"/"+p.obj.Name)
	if err != nil {
		return 0, err
	}
	if in != nil {
		go func() {
			_, _ = io.Copy(stdin, in)
			_ = stdin.Close()
		}()
	}
	p.wait(ctx, proc)
	return proc.Exit().Code, nil
}

func (p *pod) prepareCommand(argv []string) (*exec.Cmd, error) {
	p.mu.Lock()
	l, up := p.exec, p.proc != nil
	p.mu.Unlock()
	if !up {
		return nil, fmt.Errorf("the container of pod %s does not run", p.obj.Name)
	}
	cmd, err := l.command(argv)
	if err == nil {
		cmd.Dir = p.dir
	}
	return cmd, err
}

type exiter interface {
	Exited() <-chan struct{}
	Kill()
}

// wait returns when proc is reaped; the end of ctx or of the container kills it.
func (p *pod) wait(ctx context.Context, proc exiter) {
	var container <-chan struct{}
	if c := p.process(); c != nil {
		container = c.Exited()
	}
	select {
	case <-proc.Exited():
		return
	case <-ctx.Done():
	case <-container:
	}
	proc.Kill()
	<-proc.Exited()
}

// runInContainer serves kubectl exec.
func (r *Runtime) runInContainer(ctx context.Context, namespace, name, _ string, argv []string, attach api.AttachIO) error {
	p := r.find(namespace, name)
	if p == nil {
		return errdefs.NotFoundf("pod %s/%s does not run here", namespace, name)
	}
	var code int
	var err error
	if attach.TTY() {
		code, err = p.terminal(ctx, argv, attach)
	} else {
		code, err = p.command(ctx, argv, reader(attach.Stdin()), writer(attach.Stdout()), writer(attach.Stderr()))
	}
	if err == nil && code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command ended with code %d", code), Code: code}
	}
	return err
}

// reader and writer turn a stream that the client did not ask for into a plain nil.
func reader(r io.Reader) io.Reader {
	if r == nil {
		return nil
	}
	return r
}

func writer(w io.WriteCloser) io.Writer {
	if w == nil {
		return nil
	}
	return w
}

// terminal runs a command on a pseudo terminal.
func (p *pod) terminal(ctx context.Context, argv []string, attach api.AttachIO) (int, error) {
	cmd, err := p.prepareCommand(argv)
	if err != nil {
		return 0, err
	}
	master, tty, err := openTerminal()
	if err != nil {
		return 0, err
	}
	defer master.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	proc, err := p.rt.cfg.Keeper.Start(cmd, "exec in pod "+p.obj.Namespace+"/"+p.obj.Name)
	_ = tty.Close()
	if err != nil {
		return 0, err
	}
	go resize(master, proc, attach.Resize())
	if attach.Stdin() != nil {
		go func() { _, _ = io.Copy(master, attach.Stdin()) }()
	}
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		_, _ = io.Copy(attach.Stdout(), master) // ends with EIO when the last holder of the terminal is gone
	}()
	p.wait(ctx, proc)
	<-printed
	return proc.Exit().Code, nil
}

func resize(master *os.File, proc exiter, sizes <-chan api.TermSize) {
	for {
		select {
		case <-proc.Exited():
			return
		case s, ok := <-sizes:
			if !ok {
				return
			}
			_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: s.Height, Col: s.Width})
		}
	}
}

// openTerminal makes a pseudo terminal and returns both ends.
func openTerminal() (master, tty *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening a terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		_ = master.Close()
		return nil, nil, fmt.Errorf("opening a terminal: %w", err)
	}
	return master, tty, nil
}
