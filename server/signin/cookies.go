package signin

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Cookies. One has at most some 4,000 bytes, so a session may need several.
const (
	flowCookie    = "setpoint-sign-in"
	sessionCookie = "setpoint-session"
	// pieceBytes and maxPieces limit a session: together with a browser's other headers it must
	// fit --max-header-bytes.
	pieceBytes = 3800
	maxPieces  = 3
)

// hostPrefix makes browsers protect a cookie from being set by other hosts; it requires
// https.
const hostPrefix = "__Host-"

// cookie returns a cookie that is sent to this host only and hidden from scripts.
func (s *SignIn) cookie(name, value string, site http.SameSite, age time.Duration) *http.Cookie {
	c := &http.Cookie{Name: s.name(name), Value: value, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: site, MaxAge: int(age.Seconds())}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

func (s *SignIn) name(name string) string {
	if s.secure {
		return hostPrefix + name
	}
	return name
}

// setSession sets the cookies of a session, and removes leftovers of a longer previous one.
// false: it is too long.
func (s *SignIn) setSession(w http.ResponseWriter, sealed string, age time.Duration) bool {
	if len(sealed) > maxPieces*pieceBytes {
		return false
	}
	for i := range maxPieces {
		piece := sealed[min(len(sealed), i*pieceBytes):min(len(sealed), (i+1)*pieceBytes)]
		http.SetCookie(w, s.cookie(pieceName(i), piece, http.SameSiteStrictMode, age))
	}
	return true
}

// session returns the content of the session's cookies; "" without a session.
func (s *SignIn) session(r *http.Request) string {
	var b strings.Builder
	for i := range maxPieces {
		c, err := r.Cookie(s.name(pieceName(i)))
		if err != nil || c.Value == "" {
			break
		}
		b.WriteString(c.Value)
	}
	return b.String()
}

func pieceName(i int) string {
	if i == 0 {
		return sessionCookie
	}
	return sessionCookie + "-" + strconv.Itoa(i+1)
}
