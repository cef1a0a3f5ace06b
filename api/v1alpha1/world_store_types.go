package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// StoreSpec is where entities are kept. It is chosen when the World is made, and never switched between managed and external.
// +kubebuilder:validation:XValidation:rule="has(self.managed) != has(self.external)",message="store needs exactly one of managed and external: remove one of them"
type StoreSpec struct {
	// managed is a Valkey that the operator runs, with a volume.
	// +optional
	Managed *ManagedStore `json:"managed,omitempty"`
	// external is a Valkey or Redis of your own.
	// +optional
	External *ExternalStore `json:"external,omitempty"`
}

// ManagedStore is a Valkey that the operator runs: one pod, an append-only file that is forced to the disk with every write,
// and a volume that outlives pod and World.
type ManagedStore struct {
	// image of the Valkey server, 7.2 or newer. Unset means the operator's default at the time the World was made. The
	// entities are in the format of the image: take a newer one, never an older one, and delete the pod to have it started.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// storage is the volume of the store. It never changes: to enlarge the volume, edit its claim
	// "data-<world>-store-0", where the storage class allows it.
	// +optional
	Storage StoreStorage `json:"storage,omitzero"`
	// resources of the server's container. Everything is kept in memory too: a limit must leave room for twice the
	// entities, because the file is rewritten by a copy of the process.
	// +optional
	Resources Resources `json:"resources,omitzero"`
	// deletionPolicy says what becomes of the volume with the World. Retain is all there is: the claim
	// "data-<world>-store-0" stays, and a World of that name with the same seed finds its entities again. Delete the claim
	// to delete them.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// DeletionPolicy says what becomes of a volume with its World.
// +kubebuilder:validation:Enum=Retain
type DeletionPolicy string

// DeletionRetain keeps the volume.
const DeletionRetain DeletionPolicy = "Retain"

// StoreStorage is the volume of a store.
// +kubebuilder:validation:XValidation:rule="has(self.size) == has(oldSelf.size) && (!has(self.size) || self.size == oldSelf.size) && has(self.className) == has(oldSelf.className) && (!has(self.className) || self.className == oldSelf.className)",message="store.managed.storage is immutable, the volume is made: restore it; to enlarge the volume edit the claim data-<world>-store-0"
type StoreStorage struct {
	// size of the volume. Unset means 10Gi.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// className names the storage class. Unset means the cluster's default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClassName string `json:"className,omitempty"`
}

// ExternalStore is a Valkey or Redis of your own, one database of it for this World alone. Have it append each write to a file
// (appendonly yes, appendfsync always) and throw nothing away (maxmemory-policy noeviction): condition StoreReady says what
// the operator found. It may run Redis 7.0, Valkey 7.2 or newer; not in cluster mode.
// +kubebuilder:validation:XValidation:rule="self.mode != 'Standalone' || size(self.addresses) == 1",message="store.external.addresses has more than one address, and mode Standalone takes one: name the primary's only, or use mode Sentinel and name the sentinels"
// +kubebuilder:validation:XValidation:rule="(self.mode == 'Sentinel') == has(self.primaryName)",message="store.external.primaryName belongs to mode Sentinel: set it there to the name by which the sentinels know the primary, and leave it out otherwise"
type ExternalStore struct {
	// mode is Standalone (one server) or Sentinel (the addresses are those of sentinels, which know the primary).
	// +optional
	// +kubebuilder:default=Standalone
	Mode StoreMode `json:"mode,omitempty"`
	// addresses are host:port of the server, or of the sentinels. They may change; the operator goes on only with a store
	// that has this World's id (status.storeID).
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=3
	// +kubebuilder:validation:items:MaxLength=261
	// +kubebuilder:validation:XValidation:rule="self.all(a, a.matches('^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]]):[1-9][0-9]{0,4}$'))",message="store.external.addresses must each be host:port, without a scheme and a user, such as valkey.example.org:6379 or [2001:db8::1]:6379"
	Addresses []string `json:"addresses"`
	// primaryName is the name by which the sentinels know the primary, such as "mymaster". Mode Sentinel only.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._-]+$')",message="store.external.primaryName may hold only A-Z, a-z, 0-9, '.', '_' and '-': write it as in the configuration of the sentinels"
	PrimaryName string `json:"primaryName,omitempty"`
	// credentialsSecretName names a Secret with the key "password" and, for another user than the default one, "username".
	// Sentinels that ask for credentials of their own get "sentinelUsername" and "sentinelPassword". A changed password is
	// used for the next connection. Unset means that the store asks for none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`
	// caSecretName names a Secret with the key "ca.crt": the authorities, as PEM, that may sign the certificate of the
	// store, which must be for the host in addresses, or for the one that the sentinels give. Set means TLS, to the sentinels
	// too.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CASecretName string `json:"caSecretName,omitempty"`
}
