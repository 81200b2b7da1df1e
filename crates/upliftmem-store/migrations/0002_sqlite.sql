-- Words are indexed in the process, from the texts.
DROP TABLE memory_postings;
DROP TABLE memory_words;
