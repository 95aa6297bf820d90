"""Search over models by a metric that scikit-learn does not have."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.tree import DecisionTreeClassifier

from cmfast.compat import sklearn as fast

X, y = load_breast_cancer(return_X_y=True)
scoring = {
    name: fast.make_scorer(name)
    for name in ("geometric_mean", "mcc", "fnr_binary")
}
search = GridSearchCV(
    DecisionTreeClassifier(random_state=0),
    {"max_depth": [1, 2, 4]},
    scoring=scoring,
    refit="mcc",
)
search.fit(X, y)
for name in scoring:
    print(name, search.cv_results_[f"mean_test_{name}"].round(3))

fast.patch()
print(
    cross_validate(
        search.best_estimator_, X, y, scoring=["f1_macro", "roc_auc"]
    )["test_f1_macro"].round(3)
)
fast.unpatch()
