package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DrainReason is why a zone node should hold no region.
// +kubebuilder:validation:Enum=Rollout;ScaleDown;User;Eviction
type DrainReason string

const (
	// DrainRollout: the node is about to be replaced by a newer pod.
	DrainRollout DrainReason = "Rollout"
	// DrainScaleDown: the World asks for fewer nodes.
	DrainScaleDown DrainReason = "ScaleDown"
	// DrainUser: somebody asked for it.
	DrainUser DrainReason = "User"
	// DrainEviction: the pod's machine is being emptied.
	DrainEviction DrainReason = "Eviction"
)

// ZoneNode is one zone node of a World. The operator makes it and writes its spec, the node writes its status.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=zn,categories={spatialcells}
// +kubebuilder:printcolumn:name="World",type=string,JSONPath=`.spec.worldName`
// +kubebuilder:printcolumn:name="Session",type=string,JSONPath=`.status.session`
// +kubebuilder:printcolumn:name="Regions",type=integer,JSONPath=`.status.regions`
// +kubebuilder:printcolumn:name="Entities",type=integer,JSONPath=`.status.entities`
// +kubebuilder:printcolumn:name="Players",type=integer,JSONPath=`.status.players`
// +kubebuilder:printcolumn:name="Tick p99 us",type=integer,JSONPath=`.status.tickP99Microseconds`
// +kubebuilder:printcolumn:name="Margin ms",type=integer,JSONPath=`.status.leaseMarginMilliseconds`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Drain",type=string,JSONPath=`.spec.drainReasons`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ZoneNode struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the operator asks of the node.
	// +required
	Spec ZoneNodeSpec `json:"spec"`
	// status is what the node reports, at most each 10 s.
	// +optional
	Status ZoneNodeStatus `json:"status,omitzero"`
}

// ZoneNodeList is a list of ZoneNodes.
// +kubebuilder:object:root=true
type ZoneNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ZoneNode `json:"items"`
}

// ZoneNodeSpec is what the operator asks of the node.
// +kubebuilder:validation:XValidation:rule="self.worldName == oldSelf.worldName && self.ordinal == oldSelf.ordinal",message="worldName and ordinal are immutable: a ZoneNode is made by the operator, edit the World instead"
type ZoneNodeSpec struct {
	// worldName is the World that the node belongs to, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	WorldName string `json:"worldName"`
	// ordinal of the node's pod.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	Ordinal int32 `json:"ordinal"`
	// drainReasons say why the node should hold no region; it is drained while there is one. Each party removes only
	// its own.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	DrainReasons []DrainReason `json:"drainReasons,omitempty"`
}

// ZoneNodeStatus is what the node reports.
type ZoneNodeStatus struct {
	// conditions are Ready and Drained.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation that the node saw.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// session is "<world>-zone-<ordinal>#<incarnation>" of the reporting life.
	// +optional
	// +kubebuilder:validation:MaxLength=80
	Session string `json:"session,omitempty"`
	// incarnation counts the lives of the node.
	// +optional
	Incarnation int32 `json:"incarnation,omitempty"`
	// regions is the number of regions the node holds.
	// +optional
	Regions int32 `json:"regions"`
	// entities is the number of entities the node owns.
	// +optional
	Entities int32 `json:"entities"`
	// players is the number of players connected to the node.
	// +optional
	Players int32 `json:"players"`
	// tickP99Microseconds is the 99th percentile of the time of a tick, in microseconds, since the last report.
	// +optional
	TickP99Microseconds int32 `json:"tickP99Microseconds"`
	// leaseMarginMilliseconds is the time, in milliseconds, that was left to the deadline when this was reported.
	// +optional
	LeaseMarginMilliseconds int32 `json:"leaseMarginMilliseconds"`
	// handoffs counts the entity handoffs of this life.
	// +optional
	Handoffs HandoffCounters `json:"handoffs,omitzero"`
}

// HandoffCounters count entity handoffs of one life of a node.
type HandoffCounters struct {
	// sent is the number of entities given to other nodes.
	// +optional
	Sent int64 `json:"sent"`
	// received is the number of entities taken from other nodes.
	// +optional
	Received int64 `json:"received"`
	// refused is the number of offers that this node or its peer refused.
	// +optional
	Refused int64 `json:"refused"`
	// authorityGapP99Microseconds is the 99th percentile of the time an entity was frozen on its way here, in
	// microseconds.
	// +optional
	AuthorityGapP99Microseconds int32 `json:"authorityGapP99Microseconds"`
}
