// Command e2e proves a real cluster under faults: `make e2e`. It runs the demo (hack/demo) as a user would, in several
// ways, and looks at what it says and what it leaves behind.
//
//   - a world of four nodes in which one is killed, one is paused for longer than its lease, and the API server is away;
//   - a world whose store is killed and comes back with every record;
//   - the smallest worlds: one region that is its own neighbour, two nodes that border each other twice;
//   - a demo that cannot start, or is interrupted at any step: it says why, and leaves no process behind.
//
// Long ones run only when they are asked for by name:
//
//   - moves, crowd, window (`make e2e-moves`): regions move under the bots, with trouble in the middle; one with 2000 entities; and
//     some must wait for a window that opens in three minutes and is too short for all;
//   - failover (`make e2e-failover`): nodes end by kill -9 and start again in their pods, lose their pods, are stopped, cut off,
//     forgotten by force; also two at once, all at once, and one while no operator runs. From outside, by Leases and nodes'
//     metrics, it is measured how long their regions stand still: 3 s at most at the median of the rounds where somebody knows
//     of the end, lease duration + 3 s in each where only silence tells. The auditor finds nothing lost, the bots nothing wrong;
//   - fence (`make e2e-fence`): nodes are stopped, cut off from API and peers, or one of them, and their clocks jump by an hour.
//     An external checker takes the deadlines from the renewals that the API server recorded, and looks for anything that a
//     node did between one and its next renewal: writes in the store's log (MONITOR, by address), packets with new bytes to
//     peers and players on the network (with the kernel's time), region Leases in the API server's audit log.
//
// failover and fence need root: cuts are nftables rules in a table of their own, which is removed in the end, and drop only what
// goes to or from one pod, known by its loopback address. The clocks that jump are those of one running process, set the way a
// debugger would (hack/demo, clockjump_amd64.go); on another architecture than amd64 that trial fails and says so.
//
// Each scenario prints a line when it begins and one when it ends; the demo's own output goes to a log that is named when
// something fails.
package main
