package ecs

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

func encodeHealth(dst []byte, h *health) []byte { return binary.AppendUvarint(dst, uint64(h.points)) }

var errShort = errors.New("it is cut short")

func decodeHealth(b []byte, h *health) error {
	points, n := binary.Uvarint(b)
	if n <= 0 || n != len(b) {
		return errShort
	}
	h.points = int(points)
	return nil
}

func TestAProperRegistrationBoots(t *testing.T) {
	w := NewWorld()
	hp := Register[health](w, Meta{Name: "health", Sync: "game.Health", Audience: PublicInRange, AccountAudience: OwnerAndParty, CodecVersion: 2, Durable: true})
	hp.HandOver(encodeHealth, decodeHealth)
	Register[position](w, Meta{Name: "mana", Sync: "game.Mana", AccountAudience: OwnerAndParty, NotHandedOver: "it is of a test"})
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	if c, known := w.Component("health"); !known || c.Meta().Codec == nil || len(w.Components()) != 4 {
		t.Errorf("component %v, %d in all", c, len(w.Components()))
	}
}

func TestBootFailsNamingTheComponentAndWhatItLacks(t *testing.T) {
	codec := &storeCodec[health]{}
	for want, meta := range map[string]Meta{
		`component "aura": it has neither a handover codec nor a reason`:              {Name: "aura"},
		`component "aura": it has both a handover codec and a reason`:                 {Name: "aura", Codec: codec, NotHandedOver: "?"},
		`component "aura": it syncs game.Aura without an audience`:                    {Name: "aura", Codec: codec, Sync: "game.Aura"},
		`component "aura": it has an audience but no message`:                         {Name: "aura", Codec: codec, Audience: OwnerOnly},
		`component "aura": it is durable but has no codec`:                            {Name: "aura", NotHandedOver: "?", Durable: true},
		`component "aura": it has a codec version but no codec`:                       {Name: "aura", NotHandedOver: "?", CodecVersion: 1},
		`component "": it has no name`:                                                {Codec: codec},
		`component "ghost": its name is registered twice`:                             {Name: "ghost", Codec: codec},
		`component "aura": it syncs game.Other, as "other" does`:                      {Name: "aura", Codec: codec, Sync: "game.Other", Audience: PublicInRange},
		`component "aura": its type ecs.position is registered as "other"` + "\nnull": {},
	} {
		w := NewWorld()
		Register[position](w, Meta{Name: "other", Codec: codec, Sync: "game.Other", Audience: PublicInRange})
		if strings.HasSuffix(want, "\nnull") {
			want = strings.TrimSuffix(want, "\nnull")
			Register[position](w, Meta{Name: "aura", Codec: codec})
		} else {
			Register[burning](w, meta)
		}
		err := w.Check()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("got %v\nwant only %s", err, want)
		}
	}
}

func TestBootNamesEachBadComponentAtOnce(t *testing.T) {
	w := NewWorld()
	Register[position](w, Meta{Name: "one"})
	Register[health](w, Meta{Name: "two"})
	if err := w.Check(); err == nil || !strings.Contains(err.Error(), `"one"`) || !strings.Contains(err.Error(), `"two"`) {
		t.Errorf("got %v", err)
	}
}

func TestAComponentSurvivesItsCodec(t *testing.T) {
	from, to := newWorld(t, 1), newWorld(t, 1)
	var codecs [2]Codec
	for i, w := range []*World{from, to} {
		hp := Register[health](w, Meta{Name: "health"})
		hp.HandOver(encodeHealth, decodeHealth)
		codecs[i] = hp.Meta().Codec
	}
	source, _ := from.Component("health")
	source.(*Store[health]).Set(1, health{300})
	if !codecs[0].Has(1) || codecs[1].Has(1) {
		t.Fatal("the codec does not know who has the component")
	}
	b := codecs[0].Append([]byte("before"), 1)
	if err := codecs[1].Decode(1, b[len("before"):]); err != nil {
		t.Fatal(err)
	}
	target, _ := to.Component("health")
	if got := target.(*Store[health]).Get(1); got == nil || got.points != 300 {
		t.Errorf("arrived as %v", got)
	}
	if err := codecs[1].Decode(1, nil); !errors.Is(err, errShort) || !strings.Contains(err.Error(), "health of 1") {
		t.Errorf("bad bytes: %v", err)
	}
	if got := target.(*Store[health]).Get(1); got.points != 300 {
		t.Errorf("bad bytes changed it to %v", got)
	}
	if err := codecs[1].Decode(2, b[len("before"):]); err == nil || !strings.Contains(err.Error(), "not alive") {
		t.Errorf("a dead entity: %v", err)
	}
}

func TestAudienceDependsOnWhetherTheEntityHasAnAccount(t *testing.T) {
	mana := Meta{AccountAudience: OwnerAndParty}
	position := Meta{Audience: PublicInRange}
	for _, c := range []struct {
		meta       Meta
		hasAccount bool
		want       Audience
	}{{mana, false, None}, {mana, true, OwnerAndParty}, {position, false, PublicInRange}, {position, true, PublicInRange}} {
		if got := c.meta.AudienceOf(c.hasAccount); got != c.want {
			t.Errorf("account %v: %v, want %v", c.hasAccount, got, c.want)
		}
	}
	if Audience(77).String() != "Audience(77)" {
		t.Error("an unknown audience has no name")
	}
}
