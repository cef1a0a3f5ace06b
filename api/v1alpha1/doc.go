// Package v1alpha1 is what a user of Spatial Cells writes and reads through Kubernetes: World, ZoneNode and Rebalance in
// the group spatialcells.io, the names and annotations that operator and zone nodes share, and every condition and
// reason that either of them reports.
//
// It promises that a field which is accepted is either acted on or reported in a condition as not acted on. Rules that
// can be decided from the object alone are CEL rules here; what needs more (do the areas cover the grid, does the
// template decode) is decided by the operator and reported in conditions.
//
// It imports nothing but apimachinery and itself, so that a client may
// depend on it cheaply.
//
// +kubebuilder:object:generate=true
// +groupName=spatialcells.io
package v1alpha1
