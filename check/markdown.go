package check

import (
	"fmt"
	"io"
	"strings"
)

// Bounds of the summary: code hosts take 64 KiB in a comment.
const (
	maxMarkdown = 60 << 10
	// maxRows bounds the lines about specs whose details have no room.
	maxRows = 200
)

// marks are what a status looks like.
var marks = map[Status]string{Failed: "❌", Warned: "⚠️", Unknown: "❔", Passed: "✅"}

// plain is untrusted text in a line or a cell of Markdown: nothing in it is a link, a mention, a tag or a cell.
func plain(s string) string {
	var out strings.Builder
	for _, r := range text(s) {
		if strings.ContainsRune("\\`*_[]<>#|~$&", r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
		if r == '@' {
			out.WriteRune('\u2060') // a word joiner: nobody is mentioned
		}
	}
	// Code hosts make links of addresses by themselves.
	return strings.ReplaceAll(out.String(), "://", ":\u2060//")
}

// code is untrusted text as code in a cell.
func code(s string) string {
	return "`" + strings.NewReplacer("`", "'", "|", "¦").Replace(text(s)) + "`"
}

// WriteMarkdown writes the report for a pull request, of at most 60 KiB: what has no room is counted.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "## %s setpoint check: %s\n\n", marks[r.Verdict], plain(r.summary()))
	if r.Range != "" {
		fmt.Fprintf(&out, "Compared: %s.\n\n", code(r.Range))
	}
	if len(r.Specs) > 0 {
		out.WriteString("| | autoscaler | change | replica hours | broken |\n|---|---|---|---|---|\n")
	}
	for i, s := range r.Specs {
		if i == maxRows {
			fmt.Fprintf(&out, "| | and %d more | | | |\n", len(r.Specs)-i)
			break
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", marks[s.Verdict], code(s.object()), s.What, plain(s.hours()), plain(strings.Join(s.broken(), ", ")))
	}
	out.WriteString("\n")
	for _, f := range r.Files {
		if out.Len() > maxMarkdown/2 {
			break
		}
		fmt.Fprintf(&out, "- %s %s: %s: %s\n", marks[f.Status], code(f.File), f.Title, plain(f.Why))
	}
	for i, note := range r.Notes {
		if i == maxProblems {
			break
		}
		fmt.Fprintf(&out, "- %s\n", plain(note))
	}
	left := 0
	for _, s := range r.Specs {
		part := s.markdown()
		if out.Len()+len(part) > maxMarkdown {
			left++
			continue
		}
		out.WriteString(part)
	}
	if left > 0 {
		fmt.Fprintf(&out, "\nThe details of %d autoscalers have no room here; `-o json` has all of them.\n", left)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// hours are the replica hours of a spec's overview.
func (s *SpecReport) hours() string {
	for _, r := range s.Results {
		if r.Rule == "replica-hours" && r.New != "" {
			return r.New
		}
	}
	if s.What == Added || s.What == Changed {
		return "not checked by history"
	}
	return ""
}

// broken are the rules that do not hold, the worst first.
func (s *SpecReport) broken() (all []string) {
	for _, status := range []Status{Failed, Warned} {
		for _, r := range s.Results {
			if r.Status == status {
				all = append(all, r.Rule)
			}
		}
		for _, f := range s.Findings {
			if s.statusOf(f) == status {
				all = append(all, f.Rule)
			}
		}
	}
	return all
}

func (s *SpecReport) markdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n### %s %s\n\n%s, %s.\n\n", marks[s.Verdict], plain(s.title()), code(s.place()), s.What)
	if len(s.Results) > 0 {
		out.WriteString("| | rule | old | new | |\n|---|---|---|---|---|\n")
		for _, r := range s.Results {
			fmt.Fprintf(&out, "| %s | [%s](%s#%s) | %s | %s | %s |\n", marks[r.Status], r.Title, Page, r.Rule, plain(r.Old), plain(r.New), plain(r.Why))
		}
		out.WriteString("\n")
	}
	for _, f := range s.Findings {
		fmt.Fprintf(&out, "- %s lint %s: %s [%s](%s) %s: %s\n", marks[s.statusOf(f)], f.Severity, plain(f.Message), f.Rule, f.Link, code(f.Field), plain(f.Arithmetic))
	}
	if s.Existing > 0 {
		fmt.Fprintf(&out, "- %d findings of lint that the old spec has, too\n", s.Existing)
	}
	h := s.History
	if h == nil || h.usable() != nil {
		return out.String()
	}
	fmt.Fprintf(&out, "\nThe count, the highest in each column:\n\n```text\n%s```\n\n", h.draw())
	out.WriteString("<details><summary>Figures, and what they rest on</summary>\n\n| | old | new |\n|---|---|---|\n")
	for _, row := range h.figures() {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", row[0], row[1], row[2])
	}
	out.WriteString("\n")
	for _, line := range h.rests() {
		fmt.Fprintf(&out, "- %s\n", plain(line))
	}
	out.WriteString("\n</details>\n")
	return out.String()
}
