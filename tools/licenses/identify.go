package main

import (
	"regexp"
	"slices"
	"strings"
)

// wording identifies a licence by phrases that must all be in its text, and some that must
// not.
type wording struct {
	id      string
	has     []string
	without []string
}

// wordings are the allowed licences: permissive ones, and MPL-2.0, which requires publication of
// its own files only, unchanged here and public. Phrases are in the form of normalize.
var wordings = []wording{
	{id: "Apache-2.0", has: []string{"apache license version 2.0", "terms and conditions for use, reproduction, and distribution"}},
	{id: "Apache-2.0", has: []string{"licensed under the apache license, version 2.0"}},
	{id: "MIT", has: []string{"permission is hereby granted, free of charge", "the above copyright notice and this permission notice shall be included"}},
	{id: "BSD-3-Clause", has: []string{"redistributions of source code must retain", "redistributions in binary form must reproduce", "used to endorse or promote products"}},
	{id: "BSD-2-Clause", has: []string{"redistributions of source code must retain", "redistributions in binary form must reproduce"}, without: []string{"used to endorse or promote products"}},
	{id: "ISC", has: []string{"permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"}},
	{id: "ISC", has: []string{"permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted"}},
	{id: "MPL-2.0", has: []string{"mozilla public license, version 2.0"}},
	{id: "MPL-2.0", has: []string{"mozilla public license version 2.0"}},
	{id: "Unlicense", has: []string{"this is free and unencumbered software released into the public domain"}},
	{id: "Zlib", has: []string{"this software is provided 'as-is', without any express or implied warranty", "altered source versions must be plainly marked"}},
	{id: "CC0-1.0", has: []string{"cc0 1.0 universal"}},
	{id: "0BSD", has: []string{"permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted."}, without: []string{"provided that the above copyright notice"}},
}

// refused are words of forbidden licences, anywhere in a text.
var refused = []string{
	"gnu general public license", "gnu lesser general public license", "gnu affero general public license",
	"server side public license", "business source license", "commons clause", "elastic license",
}

var (
	spaces = regexp.MustCompile(`[\s*#>/-]+`)
)

// normalize removes differences of line breaks, comment marks and quotes.
func normalize(text string) string {
	text = strings.NewReplacer("“", "'", "”", "'", "\"", "'", "`", "'", "and/or", "and or").Replace(strings.ToLower(text))
	return spaces.ReplaceAllString(text, " ")
}

// identify returns the identifiers of SPDX for the licences whose wording a text has, sorted;
// none if it has that of a licence which must not be linked.
func identify(text string) []string {
	text = normalize(text)
	var found []string
	for _, w := range wordings {
		if !slices.Contains(found, w.id) && all(w.has, text) && !slices.ContainsFunc(w.without, func(p string) bool { return contains(text, p) }) {
			found = append(found, w.id)
		}
	}
	// MPL-2.0 names the GNU licences that its files may be passed on under, too.
	if !slices.Contains(found, "MPL-2.0") && slices.ContainsFunc(refused, func(p string) bool { return contains(text, p) }) {
		return nil
	}
	slices.Sort(found)
	return found
}

func contains(normalized, phrase string) bool { return strings.Contains(normalized, normalize(phrase)) }

func all(phrases []string, text string) bool {
	return !slices.ContainsFunc(phrases, func(p string) bool { return !contains(text, p) })
}

// allowed reports whether an identifier of SPDX, or a choice of such, has one that may be linked.
func allowed(expression string) bool {
	for _, id := range strings.Split(strings.Trim(expression, "()"), " OR ") {
		if slices.ContainsFunc(wordings, func(w wording) bool { return w.id == id }) {
			return true
		}
	}
	return false
}
