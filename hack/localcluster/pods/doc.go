// Package pods runs the pods of a cluster as processes of this machine.
//
// Each pod is one goroutine, found by the pod's uid, so that a pod that was deleted by force and made anew under its
// name never meets its predecessor: the successor waits until the predecessor is reaped. A container is a process with
// a loopback address of its own. The goroutine prepares volumes and environment, starts the process, attends it
// (probes, exit, stop), restarts it in the same pod with backoff, and in the end removes the pod from the API as a
// kubelet does: with grace 0 and the uid.
//
// What it promises:
//   - status goes out as a strategic merge patch, latest wins, and is repeated until the API server takes it;
//   - nothing of a pod runs after its goroutine has ended; nothing at all runs after Runtime.Stop;
//   - secrets, configMaps and tokens in volumes are kept current, swapped atomically;
//   - what a process cannot give (a second container, a mount, host networking) is refused in the pod's status with
//     words that say so.
//
// There is no mount namespace: mount paths are rewritten in arguments and environment, and KUBECONFIG and LISTEN_HOST
// are injected. It may import child and the Kubernetes client libraries; it knows nothing of the control plane.
package pods
