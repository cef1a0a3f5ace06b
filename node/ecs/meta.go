package ecs

import (
	"errors"
	"fmt"
)

// Audience is who is told of a component's values.
type Audience uint8

// Audiences. An entity's own account always belongs to its audience.
const (
	// None: nobody.
	None Audience = iota
	// PublicInRange: each account and node that sees the entity's chunk.
	PublicInRange
	// OwnerOnly: the account the entity belongs to.
	OwnerOnly
	// Accounts: the accounts that the component itself lists.
	Accounts
	// OwnerAndParty: the account the entity belongs to and its party.
	OwnerAndParty
)

// String writes the audience's name.
func (a Audience) String() string {
	names := [...]string{"None", "PublicInRange", "OwnerOnly", "Accounts", "OwnerAndParty"}
	if int(a) < len(names) {
		return names[a]
	}
	return fmt.Sprintf("Audience(%d)", uint8(a))
}

// Codec carries one component type of an entity to another node or to the store, and back.
type Codec interface {
	// Append appends the encoded component of id, which has it.
	Append(dst []byte, id EntityID) []byte
	// Decode sets the component of id, which is alive, from bytes that came from outside: it limits what it reads and
	// keeps no reference to b. After an error the component is as it was.
	Decode(id EntityID, b []byte) error
	// Has reports whether id has the component.
	Has(id EntityID) bool
}

// Meta says once, for each component type, what becomes of it outside its store.
type Meta struct {
	// Name is unique and stable: it names the component on links, in the store and in errors.
	Name string

	// Sync is the full name of the wire message that shows the component to clients; empty if it is never shown.
	Sync string
	// Audience is who gets Sync.
	Audience Audience
	// AccountAudience, if not None, replaces Audience for entities that belong to an account: Health is public on a
	// creature, but for owner and party only on a player.
	AccountAudience Audience

	// Codec hands the component over and saves it. It may also be attached later, by HandOver or SetCodec.
	Codec Codec
	// CodecVersion is what the codec writes, counted from 1; 0 means 1.
	CodecVersion uint16
	// NotHandedOver is why the component does not travel with its entity. Exactly one of it and Codec is set.
	NotHandedOver string

	// Durable components are saved with their entity, by their codec.
	Durable bool
}

// AudienceOf returns who gets the component of an entity that belongs to an account, or to none.
func (m Meta) AudienceOf(hasAccount bool) Audience {
	if hasAccount && m.AccountAudience != None {
		return m.AccountAudience
	}
	return m.Audience
}

// problems returns what is wrong with a registration, naming the component.
func (m Meta) problems() (found []error) {
	report := func(wrong bool, problem string) {
		if wrong {
			found = append(found, fmt.Errorf("component %q: %s", m.Name, problem))
		}
	}
	silent := m.Audience == None && m.AccountAudience == None
	report(m.Name == "", "it has no name")
	report(m.Codec == nil && m.NotHandedOver == "", "it has neither a handover codec nor a reason why it is not handed over")
	report(m.Codec != nil && m.NotHandedOver != "", "it has both a handover codec and a reason why it is not handed over")
	report(m.Sync != "" && silent, "it syncs "+m.Sync+" without an audience")
	report(m.Sync == "" && !silent, "it has an audience but no message to sync")
	report(m.Durable && m.Codec == nil, "it is durable but has no codec to save it with")
	report(m.Codec == nil && m.CodecVersion > 0, "it has a codec version but no codec")
	return found
}

// Check returns nil if each component type is registered as the design asks, else an error that names each component with
// what it lacks, and each name, message or Go type registered twice. A node that fails it does not boot.
func (w *World) Check() error {
	found := append([]error(nil), w.registration...)
	names, syncs := map[string]bool{}, map[string]string{}
	for _, c := range w.components {
		meta := c.Meta()
		found = append(found, meta.problems()...)
		if names[meta.Name] {
			found = append(found, fmt.Errorf("component %q: its name is registered twice", meta.Name))
		}
		if other, taken := syncs[meta.Sync]; taken && meta.Sync != "" {
			found = append(found, fmt.Errorf("component %q: it syncs %s, as %q does", meta.Name, meta.Sync, other))
		}
		names[meta.Name], syncs[meta.Sync] = true, meta.Name
	}
	return errors.Join(found...)
}
