// Package child starts processes that never outlive their parent, and finds those that did.
//
// What it promises:
//   - each child gets SIGKILL when this process dies, however it dies (parent-death signal, sent from a thread that
//     lives as long as the Keeper);
//   - the child's own descendants go too: every child leads a process group, and a watchdog shell, which holds the other
//     end of a pipe, kills the groups that are left when the pipe breaks;
//   - a group is killed before its leader is reaped, so a recycled pid is never hit;
//   - each child is recorded in a file (pid and start time) and marked in its environment, so that a later life, or
//     `down`, sweeps what is left even after the watchdog was killed as well.
//
// It is Linux only and knows nothing of Kubernetes. It may import the standard library and golang.org/x/sys.
package child
