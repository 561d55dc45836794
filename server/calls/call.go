package calls

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
)

const (
	// RequestIDKey is the metadata with a call's id.
	RequestIDKey = "x-request-id"
	// RequestIDHeader is the header with it, in the canonical form, which net/http need not
	// convert.
	RequestIDHeader = "X-Request-Id"
	// maxRequestIDBytes limits its length.
	maxRequestIDBytes = 128
)

// GatewayNetwork is the network name of calls from REST, which do not leave the
// process.
const GatewayNetwork = "inside"

// Call is the state of a call. It is also the call's context, which saves an allocation.
type Call struct {
	context.Context
	// requestID is the caller's or our id of the call; see ID.
	requestID string
	// identity is the caller, and target the call's target, once they are known. The
	// call's goroutine sets them; a stream has only the identity.
	identity, target string
	// Items counts the requests of a batch, Failed those that failed.
	Items, Failed int
}

type callKey struct{}

// Value implements context.Context.
func (c *Call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Of returns the call of a context; nil outside of gRPC and REST calls.
func Of(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

func newCall(ctx context.Context) *Call {
	c := &Call{Context: ctx}
	if sent := metadata.ValueFromIncomingContext(ctx, RequestIDKey); len(sent) > 0 {
		if c.requestID = sent[0]; !isRequestID(sent[0]) {
			c.requestID = newRequestID()
		}
	}
	return c
}

// NoteIdentity records the caller, as soon as it is known.
func NoteIdentity(ctx context.Context, name string) {
	if c := Of(ctx); c != nil {
		c.identity = name
	}
}

// NoteTarget records the target of a call whose message does not name it.
func NoteTarget(ctx context.Context, target string) {
	if c := Of(ctx); c != nil {
		c.target = target
	}
}

// ID is the request's id; empty for calls within the process. A call without one gets it
// when it is first needed: creating and returning an id under which nothing was logged
// would cost more than everything else that is observed of a call. It is not safe for
// concurrent use before its first call.
func (c *Call) ID() string {
	if c == nil {
		return ""
	}
	if c.requestID == "" {
		c.requestID = newRequestID()
	}
	return c.requestID
}

// isRequestID reports whether a request's id is safe to log and to return.
func isRequestID(id string) bool {
	if id == "" || len(id) > maxRequestIDBytes {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

// newRequestID returns an id for a request without a usable one.
func newRequestID() string {
	var random [16]byte
	binary.LittleEndian.PutUint64(random[:], rand.Uint64())
	binary.LittleEndian.PutUint64(random[8:], rand.Uint64())
	var digits [32]byte
	hex.Encode(digits[:], random[:])
	return string(digits[:])
}

// targetOf returns the target of a call: recorded, or named by its message.
func targetOf(c *Call, req any) string {
	if c.target != "" {
		return c.target
	}
	switch m := req.(type) {
	case interface{ GetTarget() string }:
		return m.GetTarget()
	case interface{ GetName() string }:
		return m.GetName()
	case interface{ GetParent() string }:
		return m.GetParent()
	}
	return ""
}

// messageBytes is the length of an encoded message.
func messageBytes(m any) int {
	switch m := m.(type) {
	case interface{ EncodedLen() int }: // one that stays encoded
		return m.EncodedLen()
	case proto.Message:
		return proto.Size(m)
	}
	return 0
}

// peerOf returns the address of the caller: for calls from the gateway, that of the REST call's connection, whatever its
// headers say.
func peerOf(ctx context.Context) string {
	if c, ok := ctx.Value(restCallKey{}).(*restCall); ok {
		return c.peer
	}
	if p, ok := peer.FromContext(ctx); ok && !IsFromGateway(ctx) {
		return p.Addr.String()
	}
	return ""
}

// requestIDOf returns the id of a REST call, and makes the gateway pass on no other
// one.
func requestIDOf(r *http.Request) string {
	id := r.Header.Get(RequestIDHeader)
	if !isRequestID(id) {
		id = newRequestID()
	}
	r.Header.Set(RequestIDHeader, id)
	return id
}
