"""Where the paper slips and the corrected form is used; docs/explanation/theory.md lists the same."""

SLIPS = (
    "Theorem 1 asks for β > 2/μ, but its γ contains √(…/(μβ − 4)) and its proof uses β > 4/μ; β > 4/μ is required.",
    "δ₁ ends in “+ 1” in the statement and not in the proof; the statement's value is the larger one and is used.",
    "In the induction hypothesis δ₂/(γ + t)² should read δ₂/(γ + s)².",
    "In the proof of Lemma 2, term A, factors 1/n and 1/n² are dropped on the way; the result is not affected.",
    "“Full rank when nd ≥ p” should read np ≥ d; w* is the mean of the wᵢ* in expectation regardless.",
    "“T = 15 in the second and third scheme”: in the third Tᵢ reaches 20; 15 is the mean.",
    "τᵢ(t) is undefined before worker i first reports; Assumption 3 can hold only afterwards.",
    "In the proof of Theorem 1, (22) has (γ + t)³ where (Eup) and (add2) have (γ + t)². The stated γ is then too small "
    "for 4 < μβ < 30/7; a third term 2.02 C_L β² ρ̄/(μβ − 4) in its maximum mends it and changes nothing above.",
    "In the proof of Lemma 2, w(t) − w(τ̄) is minus the sum of (η_s/n) gˢ; the bound holds for both signs.",
    "Assumption 1 (ii) is stated for ∇fᵢ and used for ∇Fᵢ; L is that of ∇Fᵢ here.",
)
