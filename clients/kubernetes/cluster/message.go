package cluster

import "strings"

// maxMessage bounds the text of an error, in bytes: an API behind a proxy may answer with an
// HTML page, and a request allows 8192 characters.
const maxMessage = 4096

// messageOf returns the text of an error in a form that a request allows; never empty.
func messageOf(err error) string {
	text := strings.ToValidUTF8(err.Error(), "�")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	if text == "" {
		return "the API server gave no reason"
	}
	return text
}
