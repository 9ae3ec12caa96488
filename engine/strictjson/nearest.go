package strictjson

import "strings"

// most is how many words a suggestion lists.
const most = 12

// Nearest returns the word at the smallest edit distance, letter case ignored, or "" if none is near.
func Nearest(word string, words []string) string {
	best, near := "", 0
	typed := []rune(strings.ToLower(word))
	if len(typed) > longest {
		return ""
	}
	for _, candidate := range words {
		if len(candidate) > 4*longest {
			continue
		}
		wanted := []rune(strings.ToLower(candidate))
		d := distance(typed, wanted)
		// Up to a third of the letters may be wrong, and two in any word that is not tiny; one may have stopped typing.
		allowed := max(len(wanted), len(typed)) / 3
		if len(wanted) >= 4 {
			allowed = max(allowed, 2)
		}
		started := len(typed) >= 3 && strings.HasPrefix(string(wanted), string(typed))
		if (d <= allowed || started) && (best == "" || d < near) {
			best, near = candidate, d
		}
	}
	return best
}

// Suggestion ends a message about an unknown word: it names the nearest word, or else lists the words there are.
func Suggestion(word string, words []string) string {
	if hint := didYouMean(word, words); hint != "" || len(words) == 0 {
		return hint
	}
	listed := strings.Join(words[:min(len(words), most)], ", ")
	if len(words) > most {
		listed += ", ..."
	}
	return "; known: " + listed
}

// didYouMean ends a message with the nearest word, or is empty.
func didYouMean(word string, words []string) string {
	if near := Nearest(word, words); near != "" {
		return "; did you mean " + quote(near) + "?"
	}
	return ""
}

// distance is the number of letters to insert, delete, replace, or swap with a neighbour (optimal string alignment).
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+1)
			if a[i] == b[j] {
				row[j+1] = min(row[j+1], last[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
