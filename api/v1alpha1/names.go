package v1alpha1

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels and annotations that the operator and the zone nodes share.
const (
	// LabelWorld carries the name of the World that an object belongs to.
	LabelWorld = "spatialcells.io/world"
	// LabelLease says what a Lease is: LeaseKindSession, LeaseKindRegion or LeaseKindCanary.
	LabelLease = "spatialcells.io/lease"
	// LabelRegion carries "<column>-<row>" on a region Lease.
	LabelRegion = "spatialcells.io/region"
	// LabelOrdinal carries the ordinal of the zone node on its session Lease, ZoneNode and pod.
	LabelOrdinal = "spatialcells.io/ordinal"

	// AnnotationTarget, on a region Lease, names the node that should hold the region, e.g. "genesis-zone-2". Only the
	// operator writes it.
	AnnotationTarget = "spatialcells.io/target"
	// AnnotationMove, on a region Lease, is the operator's note about the order to move the region, e.g.
	// "to=2 at=2026-12-01T04:30:00.000Z failures=0": controllers/moves reads and writes it, and nobody else.
	AnnotationMove = "spatialcells.io/move"
	// AnnotationStage, on a region Lease, names the stage with which its holder was given the region by the one before: the copy
	// that it had of the region at that very moment. Nodes write it, with the holder.
	AnnotationStage = "spatialcells.io/stage"
	// AnnotationAddress, on a session Lease, is host:port of the peer link of this incarnation.
	AnnotationAddress = "spatialcells.io/address"
	// AnnotationKeyHash, on a session Lease, is the lower-case hexadecimal SHA-256 of the DER SubjectPublicKeyInfo of
	// this incarnation's self-signed key.
	AnnotationKeyHash = "spatialcells.io/key-sha256"
	// AnnotationGateway, on a session Lease, is host:port of the client WebSocket of this incarnation.
	AnnotationGateway = "spatialcells.io/gateway"

	// Finalizer, on a World, is held only while its regions are.
	Finalizer = "spatialcells.io/regions"
)

// Values of LabelLease.
const (
	// LeaseKindSession marks the Lease that one zone node renews.
	LeaseKindSession = "session"
	// LeaseKindRegion marks the Lease that says who owns one region.
	LeaseKindRegion = "region"
	// LeaseKindCanary marks the Lease on which the operator proves that the lease policies are enforced.
	LeaseKindCanary = "canary"
)

// NodeName is the name of a zone node: of its pod, its session Lease and its ZoneNode.
func NodeName(world string, ordinal int) string {
	return fmt.Sprintf("%s-zone-%d", world, ordinal)
}

// ParseNodeName is the inverse of NodeName.
func ParseNodeName(node string) (world string, ordinal int, err error) {
	at := strings.LastIndex(node, "-zone-")
	if at <= 0 {
		return "", 0, fmt.Errorf("parsing node name %q: want <world>-zone-<ordinal>", node)
	}
	n, err := strconv.ParseUint(node[at+len("-zone-"):], 10, 31)
	if err != nil {
		return "", 0, fmt.Errorf("parsing node name %q: want <world>-zone-<ordinal>", node)
	}
	if node != NodeName(node[:at], int(n)) {
		return "", 0, fmt.Errorf("parsing node name %q: the ordinal has leading zeros", node)
	}
	return node[:at], int(n), nil
}

// SessionID names one life of a zone node. It is the holder of a region Lease.
func SessionID(world string, ordinal int, incarnation int32) string {
	return NodeName(world, ordinal) + "#" + strconv.FormatInt(int64(incarnation), 10)
}

// ParseSessionID is the inverse of SessionID; the node is a NodeName.
func ParseSessionID(s string) (node string, incarnation int32, err error) {
	node, number, found := strings.Cut(s, "#")
	if !found {
		return "", 0, fmt.Errorf("parsing session %q: want <world>-zone-<ordinal>#<incarnation>", s)
	}
	if _, _, err := ParseNodeName(node); err != nil {
		return "", 0, fmt.Errorf("parsing session %q: %w", s, err)
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n > math.MaxInt32 || strconv.FormatUint(n, 10) != number {
		return "", 0, fmt.Errorf("parsing session %q: the incarnation must be a decimal number up to %d", s, math.MaxInt32)
	}
	return node, int32(n), nil
}

// RegionLabel is the value of LabelRegion.
func RegionLabel(column, row int) string {
	return fmt.Sprintf("%d-%d", column, row)
}

// ParseRegionLabel is the inverse of RegionLabel.
func ParseRegionLabel(s string) (column, row int, err error) {
	c, r, found := strings.Cut(s, "-")
	column64, errC := strconv.ParseUint(c, 10, 16)
	row64, errR := strconv.ParseUint(r, 10, 16)
	if !found || errC != nil || errR != nil || RegionLabel(int(column64), int(row64)) != s {
		return 0, 0, fmt.Errorf("parsing region %q: want <column>-<row>", s)
	}
	return int(column64), int(row64), nil
}

// RegionLeaseName is the name of the Lease of one region.
func RegionLeaseName(world string, column, row int) string {
	return world + "-r-" + RegionLabel(column, row)
}

// LeaseTime is the renewTime of the next write of a Lease: now, but always after that of the write before, nil if there was none.
// Two writes thus never say the same, and the time of a Lease never goes back, whatever the clocks of its writers do.
func LeaseTime(before *metav1.MicroTime, now time.Time) metav1.MicroTime {
	now = now.Truncate(time.Microsecond) // which is what the API server keeps
	if before != nil && !before.Time.Before(now) {
		now = before.Add(time.Microsecond)
	}
	return metav1.NewMicroTime(now)
}

// HolderIdentity is the holder of a session Lease: one pod, not its successor of the same name.
func HolderIdentity(pod, uid string) string {
	return pod + "_" + uid
}

// ParseHolderIdentity is the inverse of HolderIdentity.
func ParseHolderIdentity(s string) (pod, uid string, err error) {
	pod, uid, found := strings.Cut(s, "_")
	if !found || pod == "" || uid == "" {
		return "", "", fmt.Errorf("parsing holder %q: want <pod>_<uid>", s)
	}
	return pod, uid, nil
}

// LostHolder is the holder of a session Lease that the operator made in place of a lost one. It is the identity of no pod:
// nobody can know from that Lease who lives, until it is revoked or taken.
const LostHolder = "lost"

// ServiceAccountName is the ServiceAccount of the zone nodes of a World.
func ServiceAccountName(world string) string { return world + "-zone" }

// StatefulSetName is the StatefulSet of the zone nodes of a World.
func StatefulSetName(world string) string { return world + "-zone" }

// PeersServiceName is the headless Service that governs the StatefulSet.
func PeersServiceName(world string) string { return world + "-peers" }

// GatewayServiceName is the Service that clients connect to.
func GatewayServiceName(world string) string { return world + "-gateway" }

// StoreName is the name of the store of a World and of what belongs to it.
func StoreName(world string) string { return world + "-store" }

// DefaultSeedSecretName is the Secret of the terrain seed when spec.seedSecretName is not set.
func DefaultSeedSecretName(world string) string { return world + "-seed" }

// CanaryLeaseName is the Lease on which the operator proves that the lease policies are enforced.
func CanaryLeaseName(world string) string { return world + "-canary" }

// Keys in Secrets.
const (
	// SeedKey is the key of the terrain seed in its Secret.
	SeedKey = "seed"
	// UsernameKey and PasswordKey are in the Secret of a store's credentials.
	UsernameKey = "username"
	PasswordKey = "password"
	// SentinelUsernameKey and SentinelPasswordKey are in it too where sentinels ask for credentials.
	SentinelUsernameKey = "sentinelUsername"
	SentinelPasswordKey = "sentinelPassword"
	// CAKey is in the Secret of the authorities that may sign a store's certificate.
	CAKey = "ca.crt"
)
