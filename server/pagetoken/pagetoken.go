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
	position = position[:min(len(position), MaxPosition)]
	plain := make([]byte, (lengthSize+len(position)+padding-1)/padding*padding)
	binary.BigEndian.PutUint16(plain, uint16(len(position)))
	copy(plain[lengthSize:], position)
	token := make([]byte, saltSize, saltSize+len(plain)+64)
	_, _ = rand.Read(token)
	token = key.sealer(token).Seal(token, nil, plain, list.bound())
	return base64.RawURLEncoding.EncodeToString(token)
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
