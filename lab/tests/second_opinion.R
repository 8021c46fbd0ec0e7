# second_opinion.R - analyses of variance and Tukey's tests by R, for second_opinion_test.py
#
#   Rscript second_opinion.R DATA.csv TABLES FACTOR ...
#
# DATA has columns allocator, y and the factors; TABLES are sets of factors, as A:B:C,A:B. For each
# allocator: the full factorial analysis, and for each table all pairs of its cells, with the model's
# mean square. Lines with tabs between: p ALLOCATOR SOURCE P, or pair ALLOCATOR TABLE ONE OTHER P.

given <- commandArgs(trailingOnly = TRUE)
runs <- read.csv(given[1], colClasses = "character")
runs$y <- as.numeric(runs$y)
factors <- given[-(1:2)]
for (name in factors) runs[[name]] <- factor(runs[[name]])
formula <- as.formula(paste("y ~", paste(factors, collapse = " * ")))
number <- function(value) formatC(value, digits = 12, format = "g")

for (name in unique(runs$allocator)) {
  model <- aov(formula, runs[runs$allocator == name, ])
  table <- summary(model)[[1]]
  sources <- head(rownames(table), -1)
  writeLines(paste("p", name, trimws(sources), number(table[sources, "Pr(>F)"]), sep = "\t"))
  for (set in strsplit(given[2], ",")[[1]]) {
    pairs <- TukeyHSD(model, set)[[set]]
    writeLines(paste("pair", name, set, sub("-.*", "", rownames(pairs)),
                     sub(".*-", "", rownames(pairs)), number(pairs[, "p adj"]), sep = "\t"))
  }
}
