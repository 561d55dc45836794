// Package pagetoken makes page tokens that say nothing and count only where they were
// given out: each is encrypted and authenticated (AES-256-GCM, with a key of its own that
// is derived from the shared one and 128 random bits), padded, and bound to the list that
// it continues.
//
//	token := pagetoken.Seal(key, list, "demo/shop/web")
//	…
//	position, ok := pagetoken.Open(key, list, token)
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

// MaxPosition bounds a position, in bytes.
const MaxPosition = 1022

const (
	saltSize = 16
	// padding is what the length of a position is rounded up to, with that of its length:
	// a token tells of it no more than in which multiple it is.
	padding = 256
	// lengthSize is that of a position's length, in bytes.
	lengthSize = 2
)

// Key is the secret of all tokens. Instances that serve each other's tokens share it.
type Key [KeySize]byte

// NewKey returns a random key.
func NewKey() (k Key) {
	_, _ = rand.Read(k[:]) // It never fails.
	return k
}

// List is what a token continues; it counts nowhere else.
type List struct {
	// Method is the full name of the call, and Parent its parent.
	Method, Parent string
	// Caller is the name of the caller; empty where authentication is off.
	Caller string
	// Scope stands for what the caller may see of the list; empty: all of it.
	Scope string
}

// bound is the list as what is authenticated with a token: each part after its length.
func (l *List) bound() []byte {
	var b []byte
	for _, part := range [...]string{l.Method, l.Parent, l.Caller, l.Scope} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}

// Seal returns the token of a position of the list. A position that is longer than
// MaxPosition is cut there, and its token is of no use.
func Seal(key Key, list List, position string) string {
	return string(NewSealer(key, list).Append(nil, position))
}

// mostSealed is how many tokens have the same random bits: the chance that two of them have the
// same nonce stays below one in 2^56.
const mostSealed = 1 << 20

// Sealer makes the tokens of one list, many one after the other: most of what Seal does is done
// once. It is for one goroutine.
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

// Append appends the token that Seal returns.
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

// Open returns the position of a token; false: it is none of Seal's, with this key and
// for this list.
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

// sealer is the cipher of the token with that salt. With one key for all tokens, random
// nonces of 96 bits would do for 2^32 of them; so each has its own.
func (k *Key) sealer(salt []byte) cipher.AEAD {
	mac := hmac.New(sha256.New, k[:])
	mac.Write(salt)
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // Of the key's length, which is right.
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // Of the block's size, which is AES'.
	}
	return aead
}
