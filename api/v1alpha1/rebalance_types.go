package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RebalanceMode says what a Rebalance aims at.
// +kubebuilder:validation:Enum=Full;DrainNodes
type RebalanceMode string

const (
	// RebalanceFull evens out the load of all nodes.
	RebalanceFull RebalanceMode = "Full"
	// RebalanceDrainNodes empties the named nodes.
	RebalanceDrainNodes RebalanceMode = "DrainNodes"
)

// Rebalance asks for a proposal to move regions. It is accepted, and its condition ProposalReady says what is acted on.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rbl,categories={spatialcells}
// +kubebuilder:printcolumn:name="World",type=string,JSONPath=`.spec.worldName`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Proposal",type=string,JSONPath=`.status.conditions[?(@.type=="ProposalReady")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="ProposalReady")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Rebalance struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the request.
	// +required
	Spec RebalanceSpec `json:"spec"`
	// status is what became of it.
	// +optional
	Status RebalanceStatus `json:"status,omitzero"`
}

// RebalanceList is a list of Rebalances.
// +kubebuilder:object:root=true
type RebalanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Rebalance `json:"items"`
}

// RebalanceSpec is the request.
// +kubebuilder:validation:XValidation:rule="(self.mode == 'DrainNodes') == has(self.drainOrdinals)",message="drainOrdinals belongs to mode DrainNodes: set both, or neither"
// +kubebuilder:validation:XValidation:rule="self.mode == oldSelf.mode && self.worldName == oldSelf.worldName",message="worldName and mode are immutable: make a new Rebalance"
type RebalanceSpec struct {
	// worldName is the World to rebalance, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	WorldName string `json:"worldName"`
	// mode is Full or DrainNodes.
	// +required
	Mode RebalanceMode `json:"mode"`
	// drainOrdinals are the nodes to empty.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=63
	DrainOrdinals []int32 `json:"drainOrdinals,omitempty"`
}

// RebalanceStatus is what became of the request.
type RebalanceStatus struct {
	// conditions are ProposalReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
