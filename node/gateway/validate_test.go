package gateway

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
)

func input(in *wire.Input) *wire.ClientEnvelope {
	return &wire.ClientEnvelope{Message: &wire.ClientEnvelope_Input{Input: in}}
}

func move(waypoints int) *wire.ClientEnvelope {
	return input(&wire.Input{Number: 1, Action: &wire.Input_Move{Move: &wire.Move{Waypoints: make([]uint32, waypoints)}}})
}

func chunks(n int) *wire.ClientEnvelope {
	return &wire.ClientEnvelope{Message: &wire.ClientEnvelope_ChunkRequest{
		ChunkRequest: &wire.ChunkRequest{Chunks: make([]uint32, n)},
	}}
}

func auth(a *wire.Authenticate) *wire.ClientEnvelope {
	return &wire.ClientEnvelope{Message: &wire.ClientEnvelope_Authenticate{Authenticate: a}}
}

func TestTheFormOfMessages(t *testing.T) {
	for name, test := range map[string]struct {
		env *wire.ClientEnvelope
		ok  bool
	}{
		"64 waypoints":       {move(128), true},
		"65 waypoints":       {move(130), false},
		"half a waypoint":    {move(3), false},
		"no waypoint":        {move(0), false},
		"256 chunks":         {chunks(512), true},
		"257 chunks":         {chunks(514), false},
		"half a chunk":       {chunks(1), false},
		"no chunk":           {chunks(0), false},
		"200 code points":    {say(strings.Repeat("ä", 200)), true},
		"201 code points":    {say(strings.Repeat("ä", 201)), false},
		"nothing to say":     {say(" \u200b\n"), false},
		"stop":               {input(&wire.Input{Number: 1, Action: &wire.Input_Stop{Stop: &wire.Stop{}}}), true},
		"stop of no number":  {input(&wire.Input{Action: &wire.Input_Stop{Stop: &wire.Stop{}}}), false},
		"no action":          {input(&wire.Input{Number: 1}), false},
		"ping":               {ping(1), true},
		"logout":             {&wire.ClientEnvelope{Message: &wire.ClientEnvelope_Logout{Logout: &wire.Logout{}}}, true},
		"nothing":            {&wire.ClientEnvelope{}, false},
		"256 held chunks":    {auth(&wire.Authenticate{Held: heldChunks(256)}), true},
		"257 held chunks":    {auth(&wire.Authenticate{Held: heldChunks(257)}), false},
		"a long token":       {auth(&wire.Authenticate{Token: strings.Repeat("x", MaxToken+1)}), false},
		"a long resume":      {auth(&wire.Authenticate{ResumeToken: strings.Repeat("x", MaxResumeToken+1)}), false},
		"a long client name": {auth(&wire.Authenticate{ClientVersion: strings.Repeat("x", MaxClientVersion+1)}), false},
	} {
		b, err := proto.Marshal(test.env)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeClient(b); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A new action of the contract needs no word here to be let through.
func TestEveryActionOfTheContractPasses(t *testing.T) {
	actions := (&wire.Input{}).ProtoReflect().Descriptor().Oneofs().ByName("action").Fields()
	for i := range actions.Len() {
		in := &wire.Input{Number: 1}
		in.ProtoReflect().Mutable(actions.Get(i))
		switch a := in.Action.(type) {
		case *wire.Input_Move:
			a.Move.Waypoints = []uint32{1, 1}
		case *wire.Input_Say:
			a.Say.Text = "hi"
		}
		b, err := proto.Marshal(input(in))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeClient(b); err != nil {
			t.Errorf("%s: %v", actions.Get(i).Name(), err)
		}
	}
}

func heldChunks(n int) []*wire.HeldChunk {
	list := make([]*wire.HeldChunk, n)
	for i := range list {
		list[i] = &wire.HeldChunk{}
	}
	return list
}

func TestTextIsPlain(t *testing.T) {
	for in, want := range map[string]string{
		"hello":                        "hello",
		"  two  words ":                "two  words",
		"a\nb\tc\x1b[31md\x00":         "abc[31md",
		"\u202eevil\u2066\u200b\ufeff": "evil",
		"line\u2028para\u2029":         "linepara",
		"grüße, 世界 🦀":                  "grüße, 世界 🦀",
		"private\ue000":                "private",
		"broken\xff":                   "broken",
	} {
		if got := plainText(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// FuzzClientEnvelope: whatever the bytes, the heart sees only what the contract allows.
func FuzzClientEnvelope(f *testing.F) {
	for _, env := range []*wire.ClientEnvelope{move(4), chunks(2), say("hi\u202e"), ping(1), auth(&wire.Authenticate{Token: "x"}), {}} {
		b, err := proto.Marshal(env)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		env, err := decodeClient(b)
		if err != nil {
			return
		}
		if env.GetMessage() == nil {
			t.Fatal("an empty envelope passed")
		}
		in := env.GetInput()
		if in != nil && (in.GetNumber() == 0 || in.GetAction() == nil) {
			t.Fatal("an input without number or action passed")
		}
		if m := in.GetMove(); m != nil && (len(m.GetWaypoints()) < 2 || len(m.GetWaypoints()) > 128 || len(m.GetWaypoints())%2 != 0) {
			t.Fatalf("%d waypoint values passed", len(m.GetWaypoints()))
		}
		if c := env.GetChunkRequest(); c != nil && (len(c.GetChunks()) < 2 || len(c.GetChunks()) > 512 || len(c.GetChunks())%2 != 0) {
			t.Fatalf("%d chunk values passed", len(c.GetChunks()))
		}
		if s := in.GetSay(); s != nil {
			text := s.GetText()
			if text == "" || utf8.RuneCountInString(text) > MaxSay || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
				t.Fatalf("text %q passed", text)
			}
		}
	})
}

// FuzzKeySet: a key set comes from an operator's file, but it may have been fetched from elsewhere.
func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := parseKeySet(b)
		for _, k := range keys {
			if err == nil && !k.fits("EdDSA") && !k.fits("RS256") {
				t.Fatalf("key %q of type %T passed", k.Name, k.Key)
			}
		}
	})
}
