package gateway

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/spatialcells/spatialcells/api/wire"
)

// Bounds of what a message may hold.
const (
	// MaxWaypoints and MaxChunks count pairs.
	MaxWaypoints = 64
	MaxChunks    = 256
	// MaxHeld bounds Authenticate.held.
	MaxHeld = 256
	// MaxSay and MaxName count code points.
	MaxSay  = 200
	MaxName = 32
	// MaxToken, MaxResumeToken and MaxClientVersion count bytes.
	MaxToken         = 4096
	MaxResumeToken   = 256
	MaxClientVersion = 128

	// maxDepth bounds the nesting of messages; the contract needs three levels.
	maxDepth = 8
)

// decodeClient decodes one message of a client and checks all that can be known without the world. Text is cleaned in
// place. The error is meant for the client.
func decodeClient(b []byte) (*wire.ClientEnvelope, error) {
	env := &wire.ClientEnvelope{}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxDepth}).Unmarshal(b, env); err != nil {
		return nil, errors.New("send one encoded ClientEnvelope per binary message")
	}
	return env, checkClient(env)
}

// checkClient checks a decoded message and cleans its text.
func checkClient(env *wire.ClientEnvelope) error {
	switch m := env.GetMessage().(type) {
	case *wire.ClientEnvelope_Authenticate:
		return checkAuthenticate(m.Authenticate)
	case *wire.ClientEnvelope_Input:
		return checkInput(m.Input)
	case *wire.ClientEnvelope_ChunkRequest:
		return checkPairs("chunks", len(m.ChunkRequest.GetChunks()), MaxChunks)
	case *wire.ClientEnvelope_Ping, *wire.ClientEnvelope_Logout:
		return nil
	}
	return errors.New("the ClientEnvelope is empty or holds a message that this protocol version does not know")
}

// checkAuthenticate bounds the strings and lists; the token itself is the verifier's.
func checkAuthenticate(a *wire.Authenticate) error {
	switch {
	case len(a.GetToken()) > MaxToken:
		return fmt.Errorf("token: at most %d bytes", MaxToken)
	case len(a.GetResumeToken()) > MaxResumeToken:
		return fmt.Errorf("resume_token: at most %d bytes", MaxResumeToken)
	case len(a.GetClientVersion()) > MaxClientVersion:
		return fmt.Errorf("client_version: at most %d bytes", MaxClientVersion)
	case len(a.GetHeld()) > MaxHeld:
		return fmt.Errorf("held: at most %d chunks", MaxHeld)
	}
	return nil
}

// checkInput checks the form of an action, not whether it can be done.
func checkInput(in *wire.Input) error {
	if in.GetNumber() == 0 {
		return errors.New("input: numbers start at Welcome.next_input, at least 1")
	}
	switch a := in.GetAction().(type) {
	case *wire.Input_Move:
		return checkPairs("waypoints", len(a.Move.GetWaypoints()), MaxWaypoints)
	case *wire.Input_Say:
		return checkSay(a.Say)
	case nil:
		return fmt.Errorf("input %d: no action, or one that this protocol version does not know", in.GetNumber())
	}
	return nil // of the others there is nothing to bound
}

// checkPairs checks the length of a list of x, y pairs.
func checkPairs(what string, length, pairs int) error {
	if length == 0 || length%2 != 0 || length > 2*pairs {
		return fmt.Errorf("%s: send 1 to %d pairs of x, y", what, pairs)
	}
	return nil
}

// checkSay cleans and bounds the text.
func checkSay(s *wire.Say) error {
	if utf8.RuneCountInString(s.GetText()) > MaxSay {
		return fmt.Errorf("say: at most %d code points", MaxSay)
	}
	if s.Text = plainText(s.GetText()); s.Text == "" {
		return errors.New("say: the text is empty")
	}
	return nil
}

// plainText removes what can disturb how others see the text: control and format characters (line breaks, escape
// sequences, bidirectional overrides, zero-width characters), surrogates, private use, line and paragraph separators and
// what is no UTF-8; then surrounding space.
func plainText(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) {
			return -1
		}
		return r
	}, s))
}
