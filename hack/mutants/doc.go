// Command mutants proves that the simulated cluster finds what it claims to find: it builds the cluster with one deliberate
// defect after another and runs seeds until a checker reports it. A defect that no seed finds is a hole in the proof.
//
//	go run ./hack/mutants                              all of them
//	go run ./hack/mutants -run thaw -seeds 1000        some of them, for longer
//	go run ./hack/mutants -list                        what there is
//
// The defects are texts in node/simtest/mutants, whose README.md describes their form. They are compiled in by
// `go test -c -overlay`, so no source of the product ever carries one.
//
//   - mutant.go: the form of a defect's file
//   - patch.go: a defect applied to the sources, as an overlay
//   - child.go: programs that end with this one
//   - run.go: building, running seeds, judging what a run printed
//   - campaign.go: the sound cluster first, then every defect
//   - report.go: the table and the JSON
//
// It may import the standard library and golang.org/x/sync.
package main
