// Command e2e proves a real cluster under faults: `make e2e`. It runs the demo (hack/demo) as a user would, in several
// ways, and looks at what it says and what it leaves behind.
//
//   - a world of four nodes in which one is killed, one is paused for longer than its lease, and the API server is away;
//   - a world whose store is killed and comes back with every record;
//   - the smallest worlds: one region that is its own neighbour, two nodes that border each other twice;
//   - a demo that cannot start, or is interrupted at any step: it says why, and leaves no process behind.
//
// Each scenario prints a line when it begins and one when it ends; the demo's own output goes to a log that is named when
// something fails.
package main
