// Command demo runs a whole world on this computer and judges it: control plane, operator, zone nodes, bots. README.md
// says how to use it.
//
// It is a straight line of steps (demo.go), each with a progress line, and an error of each is a trouble: one line for the
// cause, one for the remedy, and where the log is. Whatever happens, everything that was started ends with this process:
// in order when it returns or is asked to end, by the kernel when it is killed (package hack/localcluster/child).
//
//   - settings.go, lock.go, disk.go: before anything runs
//   - build.go, world.go: binaries, cluster, World, gateways
//   - metrics.go, live.go: what the nodes say, as a live line
//   - faults.go: kill -9, SIGSTOP and an API outage, and what is expected then
//   - verdict.go: what a run must have shown
package main
