// Package pagetoken creates opaque page tokens that are valid only for their own list:
// each is encrypted and authenticated (AES-256-GCM, with a key derived from the shared
// one and 128 random bits), padded, and bound to the list that it continues.
//
//	tokens := pagetoken.New(engine)
//	list := pagetoken.ListOf(ctx, method, parent, scope)
//	position, err := tokens.Position(ctx, list, req.GetPageToken())
//	…
//	token, err := tokens.Next(ctx, list, "demo/shop/web")
package pagetoken

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// KeySize is the length of a key, in bytes.
const KeySize = 32

// MaxPosition limits a position, in bytes.
const MaxPosition = 1022

const (
	saltSize = 16
	// padding is the unit to which a position with its length is padded: a token reveals
	// only the number of units.
	padding = 256
	// lengthSize is the size of a position's length, in bytes.
	lengthSize = 2
)

// Key is the secret of all tokens. Instances that accept each other's tokens share it.
type Key [KeySize]byte

// NewKey returns a random key.
func NewKey() (k Key) {
	_, _ = rand.Read(k[:]) // It never fails.
	return k
}

// List is the list that a token continues; the token is invalid for any other.
type List struct {
	// Method is the full name of the call, and Parent its parent.
	Method, Parent string
	// Caller is the name of the caller; empty while authentication is off.
	Caller string
	// Scope identifies the part of the list that the caller may see; empty: all of it.
	Scope string
}

// bound is the list in the form that is authenticated with a token: each part after its
// length.
func (l *List) bound() []byte {
	var b []byte
	for _, part := range [...]string{l.Method, l.Parent, l.Caller, l.Scope} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}

// Seal returns the token of a position of the list. A position longer than MaxPosition
// is cut, and its token is useless.
func Seal(key Key, list List, position string) string {
	return string(NewSealer(key, list).Append(nil, position))
}

// mostSealed is how many tokens share the same random bits: the probability that two of them
// have the same nonce stays below one in 2^56.
const mostSealed = 1 << 20

// Sealer seals many tokens of one list: it does most of the work of Seal only once. It is not
// safe for concurrent use.
type Sealer struct {
	key    Key
	bound  []byte
	salt   [saltSize]byte
	aead   cipher.AEAD
	sealed int
	plain  []byte
	raw    []byte
}

// NewSealer returns a sealer for a list.
func NewSealer(key Key, list List) *Sealer { return &Sealer{key: key, bound: list.bound()} }

// Append appends a token as Seal returns it.
func (s *Sealer) Append(to []byte, position string) []byte {
	if s.sealed%mostSealed == 0 {
		_, _ = rand.Read(s.salt[:])
		s.aead = s.key.sealer(s.salt[:])
	}
	s.sealed++
	position = position[:min(len(position), MaxPosition)]
	size := (lengthSize + len(position) + padding - 1) / padding * padding
	if cap(s.plain) < size {
		s.plain = make([]byte, size)
	}
	s.plain = s.plain[:size]
	clear(s.plain)
	binary.BigEndian.PutUint16(s.plain, uint16(len(position)))
	copy(s.plain[lengthSize:], position)
	s.raw = s.aead.Seal(append(s.raw[:0], s.salt[:]...), nil, s.plain, s.bound)
	return base64.RawURLEncoding.AppendEncode(to, s.raw)
}

// Open returns the position of a token; false: Seal did not create it with this key for
// this list.
func Open(key Key, list List, token string) (position string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < saltSize {
		return "", false
	}
	plain, err := key.sealer(raw[:saltSize]).Open(nil, nil, raw[saltSize:], list.bound())
	if err != nil || len(plain) < lengthSize {
		return "", false
	}
	length := int(binary.BigEndian.Uint16(plain))
	if length > len(plain)-lengthSize {
		return "", false
	}
	return string(plain[lengthSize:][:length]), true
}

// sealer is the cipher of the tokens with that salt. With one key for all tokens,
// random nonces of 96 bits would be safe for 2^32 of them only; so each salt has its
// own key.
func (k *Key) sealer(salt []byte) cipher.AEAD {
	mac := hmac.New(sha256.New, k[:])
	mac.Write(salt)
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // the key has the right length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block has the right size, AES'
	}
	return aead
}
